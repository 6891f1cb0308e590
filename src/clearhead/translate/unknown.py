"""Replacement of unknown tokens by the source words with the most attention.

A vocabulary without byte fallback has one token for everything unknown. Luong et al. (2015) replace it by the source
word with the highest attention weight at this step, which is right for names, numbers and symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clearhead.model.alignment import Aligner, map_words_to_tokens, sum_columns
from clearhead.text.words import extend_over_punctuation, find_word_spans

if TYPE_CHECKING:
    from clearhead.decode import GeneratedText, Hypothesis
    from clearhead.model import Model
    from clearhead.text import Tokenizer

MARKERS = tuple(chr(code) for code in range(0x10380, 0x10390))  # letters of an extinct script (Ugaritic)
PUNCTUATION = ".,!?;:-\"'()"  # tried in this order


@dataclass(frozen=True, kw_only=True)
class MarkedText:
    """A text with a marker letter for each unknown token, and the positions of these tokens."""

    text: str
    marker: str
    token_indices: tuple[int, ...]


def replace_unknown(model: Model, generated: Sequence[GeneratedText], prefix: str = "") -> list[GeneratedText]:
    """Replace unknown words in generated texts by source words, verbatim.

    `prefix` was prepended to every source. If a part of a word is unknown, the whole word is replaced. A source word
    that would be inserted twice in a row is inserted once.
    """
    tokenizer = model.target_tokenizer or model.tokenizer
    marked_texts = [
        (row, rank, marked)
        for row, answers in enumerate(generated)
        for rank, hypothesis in enumerate(answers.best)
        if (marked := mark_unknown(tokenizer, hypothesis)) is not None
    ]
    if not marked_texts:
        return list(generated)
    aligner, with_punctuation = Aligner(model), unknown_includes_punctuation(tokenizer)
    sources = {row: aligner.encode_source(generated[row].source) for row, _, _ in marked_texts}
    attention = aligner.cross_attention(
        [sources[row].ids for row, _, _ in marked_texts],
        [generated[row].best[rank].ids for row, rank, _ in marked_texts],
    )
    texts: dict[tuple[int, int], str] = {}
    for (row, rank, marked), probs in zip(marked_texts, attention, strict=True):
        source = generated[row].source[len(prefix) :]
        spans = find_word_spans(source, keep_contractions=True)
        columns = map_words_to_tokens(sources[row], spans, len(prefix))
        weights = [
            sum_columns(probs[[token]], columns)[0].tolist() if columns else [] for token in marked.token_indices
        ]
        replacement_spans = [extend_over_punctuation(source, span) if with_punctuation else span for span in spans]
        texts[row, rank] = fill_unknown(marked, weights, [source[start:end] for start, end in replacement_spans])
    return [_replace_texts(answers, row, texts) for row, answers in enumerate(generated)]


def mark_unknown(tokenizer: Tokenizer, hypothesis: Hypothesis) -> MarkedText | None:
    """Mark the unknown tokens of a hypothesis; None if there are none, or if they cannot be located."""
    unknown_id, unknown_token = tokenizer.unk_id, tokenizer.unk_token
    if unknown_id is None or unknown_token is None or unknown_id not in hypothesis.ids:
        return None
    if hypothesis.text != tokenizer.decode(hypothesis.ids):  # truncated at a stop text: ids and text differ
        return None
    hidden = {token_id for token_id in set(hypothesis.ids) - {unknown_id} if _is_special(tokenizer, token_id)}
    text = tokenizer.decode([token_id for token_id in hypothesis.ids if token_id not in hidden], skip_special=False)
    token_indices = tuple(index for index, token_id in enumerate(hypothesis.ids) if token_id == unknown_id)
    marker = next((letter for letter in MARKERS if letter not in text), None)
    if marker is None or text.count(unknown_token) != len(
        token_indices
    ):  # the text contains the unknown token literally
        return None
    return MarkedText(text=text.replace(unknown_token, marker), marker=marker, token_indices=token_indices)


def fill_unknown(marked: MarkedText, weights: Sequence[Sequence[float]], words: Sequence[str]) -> str:
    """Replace the marked words by source words; `weights` has a row of attention for each unknown token."""
    text, end, filled_count = "", 0, 0
    previous_word: int | None = None  # the source word that was inserted last
    for start, stop in find_word_spans(marked.text, keep_contractions=True):
        count = marked.text[start:stop].count(marked.marker)
        if not count:
            continue
        rows = weights[filled_count : filled_count + count]
        filled_count += count
        sums = [sum(row[word] for row in rows) for word in range(len(words))]
        best = max(range(len(words)), key=lambda word: sums[word], default=None)
        separator = marked.text[end:start]
        is_repeated = previous_word is not None and previous_word == best and not separator.strip()
        text += "" if is_repeated else separator + (words[best] if best is not None else "")
        end, previous_word = stop, best
    return (text + marked.text[end:]).replace(marked.marker, "").strip()


def _is_special(tokenizer: Tokenizer, token_id: int) -> bool:
    return tokenizer.decode([token_id]) != tokenizer.decode([token_id], skip_special=False)


def unknown_includes_punctuation(tokenizer: Tokenizer) -> bool:
    """Whether an unknown word includes adjacent punctuation, as in WordPiece that splits only at whitespace."""
    known_sign = next((sign for sign in PUNCTUATION if tokenizer.unk_id not in tokenizer.encode(sign).ids), None)
    if known_sign is None:  # no punctuation in the vocabulary: none would be generated next to the word
        return True
    return len(tokenizer.encode(MARKERS[0] + known_sign)) == len(tokenizer.encode(MARKERS[0]))


def _replace_texts(generated: GeneratedText, row: int, texts: dict[tuple[int, int], str]) -> GeneratedText:
    best = tuple(
        replace(hypothesis, text=texts[row, rank]) if (row, rank) in texts else hypothesis
        for rank, hypothesis in enumerate(generated.best)
    )
    return replace(generated, text=best[0].text, best=best) if best else generated
