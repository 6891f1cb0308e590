"""One word in two sentences: a static vector is the same in both, contextual vectors differ layer by layer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from clearhead.batch import Batch
from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.html import render_table, short_repr
from clearhead.model.alignment import map_words_to_tokens
from clearhead.text.subwords import make_whole_word_lookup
from clearhead.text.words import find_compound_spans, find_word
from clearhead.words import WordVectors

if TYPE_CHECKING:
    import numpy as np

    from clearhead.model import Model
    from clearhead.words import WordVectors

    Array = np.ndarray[Any, Any]

EMBEDDING_TENSOR = "stack.embed.token.weight"
SHOWN_WORDS = 3  # nearest words of a sentence that are reported
MAX_SENTENCES = 1000
SPECIAL_TOKEN = re.compile(r"\[.*\]|<.*>")  # [unused1], <extra_id_0>


@dataclass(frozen=True, kw_only=True)
class LayerCosine:
    """Cosine of the two occurrences in one layer."""

    name: str
    cosine: float


@dataclass(frozen=True, kw_only=True)
class ScoredText:
    """A sentence or a word, with its cosine."""

    text: str
    cosine: float


@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """The word in one sentence, with its nearest neighbors in the last layer."""

    sentence: str
    start: int  # characters [start, end) of the sentence
    end: int
    tokens: tuple[str, ...]  # of the word
    senses: tuple[ScoredText, ...]  # the same word in the other sentences, nearest first
    words: tuple[ScoredText, ...]  # other words of the same sentence; for word vectors, neighbors in the vocabulary


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Similarity of the occurrences of a word in two or more sentences, for one model."""

    word: str
    model: str
    layers: tuple[LayerCosine, ...]  # the first is the word table, without positions
    occurrences: tuple[Occurrence, ...]  # in the two sentences, then in the further ones
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as printed by `--json`."""
        return asdict(self)

    def __repr__(self) -> str:
        cosines = [f"{layer.name} {layer.cosine:.3f}" for layer in (self.layers[:1] + self.layers[-1:])]
        sentences = f"{len(self.occurrences)} sentences"
        return short_repr("Contrast", repr(self.word), sentences, self.model, f"cosine: {' ... '.join(cosines)}")

    def _repr_html_(self) -> str:
        rows = [(layer.name, f"{layer.cosine:.4f}") for layer in self.layers]
        return render_table(f"{self.word} in two sentences", ("layer", "cosine"), rows, list(self.notes))


@dataclass(frozen=True, kw_only=True)
class _EncodedSentence:
    """One sentence, encoded by a model."""

    sentence: str
    span: tuple[int, int]
    tokens: tuple[str, ...]
    ids: tuple[int, ...]  # of the word
    layers: tuple[Array, ...]  # vectors of the word by layer, the word table first
    words: tuple[tuple[str, Array], ...]  # vectors of the other words in the last layer


def contrast_model(model: Model, sentences: Sequence[str], word: str) -> Contrast:
    """Compare a word in the first two sentences layer by layer, and in all sentences by the last layer."""
    spans, notes = _locate_word(sentences, word)
    table = model.tensor(EMBEDDING_TENSOR)
    encoded = [_encode_sentence(model, table, text, span) for text, span in zip(sentences, spans, strict=True)]
    if model.shape.stack.causal:
        notes.append("This model reads from left to right: the vector of a word depends only on the words before it.")
    split_words = [sentence for sentence in encoded if len(sentence.ids) > 1]
    if split_words:
        tokens = " ".join(split_words[0].tokens)
        notes.append(
            f"{to_printable(word, 40)} is split into {to_printable(tokens)}; its vector is the mean of their vectors."
        )
    first, second = encoded[0], encoded[1]
    if first.ids != second.ids:
        spellings = " and ".join(to_printable(" ".join(sentence.tokens), 40) for sentence in (first, second))
        notes.append(f"The two spellings are different rows of the word table: {spellings}.")
    if unknown := model.tokenizer.special_tokens_map.get("unk_token"):
        notes += [
            f"{to_printable(word, 40)} is unknown to the model."
            for sentence in encoded[:1]
            if unknown in sentence.tokens
        ]
    names = ["word table", "embeddings", *(f"layer {n}" for n in range(1, len(first.layers) - 1))]
    layers = [
        LayerCosine(
            name=name,
            cosine=1.0 if name == "word table" and first.ids == second.ids else _cosine(sentence, other_vector),
        )
        for name, sentence, other_vector in zip(names, first.layers, second.layers, strict=True)
    ]
    return Contrast(
        word=word,
        model=model.reference or model.family.title,
        layers=tuple(layers),
        occurrences=tuple(_make_occurrence(encoded, index) for index in range(len(encoded))),
        notes=tuple(notes),
    )


def contrast_vectors(vectors: WordVectors, sentences: Sequence[str], word: str, *, top: int = 10) -> Contrast:
    """Compare a word with word vectors, which ignore the rest of the sentence."""
    spans, notes = _locate_word(sentences, word)
    forms = [text[start:end] for text, (start, end) in zip(sentences, spans, strict=True)]
    neighbors = {form: vectors.neighbors([form], top=top) for form in dict.fromkeys(forms)}
    occurrences = []
    for index, (text, (start, end), form) in enumerate(zip(sentences, spans, forms, strict=True)):
        others = [
            ScoredText(text=sentences[other_index], cosine=vectors.cosine(form, forms[other_index]))
            for other_index in _other_indices(forms, index)
        ]
        words = tuple(ScoredText(text=scored.word, cosine=scored.cosine) for scored in neighbors[form])
        senses = tuple(sorted(others, key=lambda scored: -scored.cosine))
        occurrences.append(Occurrence(sentence=text, start=start, end=end, tokens=(form,), senses=senses, words=words))
    layer = LayerCosine(name="word vectors", cosine=vectors.cosine(forms[0], forms[1]))
    if len({vectors.find(form) for form in forms[:2]}) > 1:
        notes.append(f"{forms[0]} and {forms[1]} are two words with separate vectors.")
    notes.append("Static vectors: a word has the same vector in every context.")
    return Contrast(word=word, model=vectors.name, layers=(layer,), occurrences=tuple(occurrences), notes=tuple(notes))


def extract_word_table(model: Model) -> WordVectors:
    """Return the token embeddings of a Transformer as word vectors: only whole-word tokens, without context."""
    tokenizer = model.tokenizer
    table = model.tensor(EMBEDDING_TENSOR)
    row_of_word: dict[str, int] = {}
    special = set(tokenizer.special_tokens_map.values())
    read_word = make_whole_word_lookup(tokenizer.vocab)
    for token, token_id in sorted(tokenizer.vocab.items(), key=lambda item: item[1]):
        if token_id < len(table) and token not in special and not SPECIAL_TOKEN.fullmatch(token):
            spelled = read_word(token)
            word = spelled if spelled is None or spelled.isascii() else tokenizer.decode([token_id]).strip()
            if word and any(map(str.isalpha, word)) and word not in row_of_word:
                row_of_word[word] = token_id
    if not row_of_word:
        raise InputError(f"{model.reference} has no tokens that are whole words, so it has no word vectors.")
    rows = list(row_of_word.values())
    notes = (f"{len(row_of_word):,} of {len(tokenizer.vocab):,} tokens are whole words; the others are omitted.",)
    return WordVectors(words=tuple(row_of_word), matrix=table[rows], name=to_printable(model.reference), notes=notes)


def _locate_word(sentences: Sequence[str], word: str) -> tuple[list[tuple[int, int]], list[str]]:
    """Find the word in each sentence as a separate word, with the same spelling if possible."""
    if len(sentences) < 2 or len(sentences) > MAX_SENTENCES:
        raise InputError(f"contrast needs 2 to {MAX_SENTENCES:,} sentences, got {len(sentences):,}.")
    if not word.strip():
        raise InputError("The word is empty; pass a word that occurs in both sentences.")
    spans, notes = [], []
    for text in sentences:
        matches = find_word(text, word)
        if not matches:
            raise InputError(
                f"{to_printable(word, 40)!r} does not occur as a separate word in {to_printable(text)!r}; every "
                "sentence must contain the word."
            )
        if len(matches) > 1:
            notes.append(
                f"{to_printable(word, 40)} occurs {len(matches)} times in {to_printable(text)!r}; the first is used."
            )
        spans.append(matches[0])
    return spans, notes


def _encode_sentence(model: Model, table: Array, text: str, span: tuple[int, int]) -> _EncodedSentence:
    import numpy as np

    encoding = model.tokenizer.encode(text, max_length=model.max_length())
    positions = map_words_to_tokens(encoding, [span])[0]
    if not positions:
        problem = "is cut off: the sentence is too long for the model" if encoding.truncated else "has no token"
        raise InputError(f"{to_printable(text[span[0] : span[1]], 40)!r} in {to_printable(text)!r} {problem}.")
    ids = np.array([encoding.ids], np.int64)
    segments = np.array([encoding.segments], np.int64) if model.shape.stack.segments > 1 else None
    hidden = model.runner.encode(Batch(ids=ids, mask=None, segments=segments), layers=True, pooled=False).hidden
    token_ids = [encoding.ids[position] for position in positions]
    words = []
    spans = find_compound_spans(text)
    for (start, end), word_positions in zip(spans, map_words_to_tokens(encoding, spans), strict=True):
        if word_positions and not set(word_positions) & set(positions):
            words.append((text[start:end], _mean_rows(hidden[-1][0], word_positions)))
    return _EncodedSentence(
        sentence=text,
        span=span,
        tokens=tuple(encoding.tokens[position] for position in positions),
        ids=tuple(token_ids),
        layers=(_mean_rows(table, token_ids), *(_mean_rows(layer[0], positions) for layer in hidden)),
        words=tuple(words),
    )


def _mean_rows(rows: Array, indices: Sequence[int]) -> Array:
    import numpy as np

    mean: Array = np.asarray(rows[list(indices)], np.float64).mean(0)
    return mean


def _cosine(a: Array, b: Array) -> float:
    import numpy as np

    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return max(-1.0, min(1.0, float(a @ b) / norms)) if norms else 0.0


def _other_indices(items: Sequence[Any], index: int) -> list[int]:
    return [other_index for other_index in range(len(items)) if other_index != index]


def _make_occurrence(sentences: Sequence[_EncodedSentence], index: int) -> Occurrence:
    sentence = sentences[index]
    last = sentence.layers[-1]
    senses = [
        ScoredText(text=sentences[other_index].sentence, cosine=_cosine(last, sentences[other_index].layers[-1]))
        for other_index in _other_indices(sentences, index)
    ]
    words = [ScoredText(text=word, cosine=_cosine(last, vector)) for word, vector in sentence.words]
    return Occurrence(
        sentence=sentence.sentence,
        start=sentence.span[0],
        end=sentence.span[1],
        tokens=sentence.tokens,
        senses=tuple(sorted(senses, key=lambda scored: -scored.cosine)),
        words=tuple(sorted(words, key=lambda scored: -scored.cosine)[:SHOWN_WORDS]),
    )
