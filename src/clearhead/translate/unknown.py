"""Words that a model could not write, taken from the source: where attention looked most when it said "unknown".

A vocabulary without bytes has one token for all it does not know. Luong and others (2015) put the source word in its
place that this step looked at, which is right for names, numbers and signs, the usual unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clearhead.model.alignment import Aligner, map_words_to_tokens, sum_columns
from clearhead.text.words import extend_over_punctuation, find_word_spans

if TYPE_CHECKING:
    from clearhead.decode import Generated, Hypothesis
    from clearhead.model import Model
    from clearhead.text import Tokenizer

MARKS = tuple(chr(code) for code in range(0x10380, 0x10390))  # letters of a script that nobody writes any more
SIGNS = ".,!?;:-\"'()"  # asked for in this order: one that the vocabulary knows


@dataclass(frozen=True, kw_only=True)
class Marked:
    """A text with a letter in it for each unknown token, and where these tokens stand among the ids."""

    text: str
    mark: str
    tokens: tuple[int, ...]


def replace_unknown(model: Model, made: Sequence[Generated], prefix: str = "") -> list[Generated]:
    """The same answers with source words, letter for letter, where the model said that it does not know a word.

    `prefix` is what was put before every source. A piece of a word that is unknown gives the whole word away. Where the
    same source word would stand twice in a row, it stands once.
    """
    tokenizer = model.target_tokenizer or model.tokenizer
    jobs = [
        (row, place, found)
        for row, one in enumerate(made)
        for place, answer in enumerate(one.best)
        if (found := marked(tokenizer, answer)) is not None
    ]
    if not jobs:
        return list(made)
    aligner, signs = Aligner(model), takes_signs(tokenizer)
    sources = {row: aligner.read(made[row].source) for row, _, _ in jobs}
    looked = aligner.cross_attention(
        [sources[row].ids for row, _, _ in jobs], [made[row].best[n].ids for row, n, _ in jobs]
    )
    texts: dict[tuple[int, int], str] = {}
    for (row, place, found), probs in zip(jobs, looked, strict=True):
        source = made[row].source[len(prefix) :]
        spans = find_word_spans(source, keep_contractions=True)
        columns = map_words_to_tokens(sources[row], spans, len(prefix))
        weights = [sum_columns(probs[[token]], columns)[0].tolist() if columns else [] for token in found.tokens]
        taken = [extend_over_punctuation(source, span) if signs else span for span in spans]
        texts[row, place] = filled(found, weights, [source[start:end] for start, end in taken])
    return [_renewed(one, row, texts) for row, one in enumerate(made)]


def marked(tokenizer: Tokenizer, answer: Hypothesis) -> Marked | None:
    """An answer with its unknown tokens made visible; None if there are none."""
    unknown, name = tokenizer.unk_id, tokenizer.unk_token
    if unknown is None or name is None or unknown not in answer.ids:
        return None
    if answer.text != tokenizer.decode(answer.ids):  # cut at a stop text: what is left is not what the ids say
        return None
    hidden = {one for one in set(answer.ids) - {unknown} if _is_special(tokenizer, one)}
    whole = tokenizer.decode([one for one in answer.ids if one not in hidden], skip_special=False)
    tokens = tuple(place for place, one in enumerate(answer.ids) if one == unknown)
    mark = next((letter for letter in MARKS if letter not in whole), None)
    if mark is None or whole.count(name) != len(tokens):  # the text itself speaks of <unk>
        return None
    return Marked(text=whole.replace(name, mark), mark=mark, tokens=tokens)


def filled(found: Marked, weights: Sequence[Sequence[float]], words: Sequence[str]) -> str:
    """The text with source words in the place of unknown ones; `weights` has a row for each unknown token."""
    made, end, seen = "", 0, 0
    before: int | None = None  # the source word that was put in last
    for start, stop in find_word_spans(found.text, keep_contractions=True):
        count = found.text[start:stop].count(found.mark)
        if not count:
            continue
        rows = weights[seen : seen + count]
        seen += count
        sums = [sum(row[word] for row in rows) for word in range(len(words))]
        best = max(range(len(words)), key=lambda word: sums[word], default=None)
        between = found.text[end:start]
        again = before is not None and before == best and not between.strip()
        made += "" if again else between + (words[best] if best is not None else "")
        end, before = stop, best
    return (made + found.text[end:]).replace(found.mark, "").strip()


def _is_special(tokenizer: Tokenizer, one: int) -> bool:
    return tokenizer.decode([one]) != tokenizer.decode([one], skip_special=False)


def takes_signs(tokenizer: Tokenizer) -> bool:
    """Whether an unknown word swallows the signs around it, as in WordPiece that cuts at blanks alone."""
    sign = next((one for one in SIGNS if tokenizer.unk_id not in tokenizer.encode(one).ids), None)
    if sign is None:  # it knows no sign at all, so that none would be written beside the word
        return True
    return len(tokenizer.encode(MARKS[0] + sign)) == len(tokenizer.encode(MARKS[0]))


def _renewed(made: Generated, row: int, texts: dict[tuple[int, int], str]) -> Generated:
    best = tuple(
        replace(answer, text=texts[row, place]) if (row, place) in texts else answer
        for place, answer in enumerate(made.best)
    )
    return replace(made, text=best[0].text, best=best) if best else made
