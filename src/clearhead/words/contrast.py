"""One word in two sentences: a context-free vector is the same in both, a contextual one is not. Layer by layer."""

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

TABLE = "stack.embed.token.weight"
NEAR = 3  # other words of a sentence that are shown
MOST_SENTENCES = 1000
NO_WORD = re.compile(r"\[.*\]|<.*>")  # [unused1], <extra_id_0>


@dataclass(frozen=True, kw_only=True)
class Layer:
    """How alike the two occurrences are in one layer."""

    name: str
    cosine: float


@dataclass(frozen=True, kw_only=True)
class Near:
    """A text, or a word, and how near it is."""

    text: str
    cosine: float


@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """The word in one sentence: what it is nearest to in the last layer."""

    sentence: str
    start: int  # characters [start, end) of the sentence
    end: int
    tokens: tuple[str, ...]  # that the word is cut into
    senses: tuple[Near, ...]  # the same word in the other sentences, nearest first
    words: tuple[Near, ...]  # other words of the same sentence; of word vectors, its neighbours in the vocabulary


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A word in two sentences, and in further ones, seen by one model."""

    word: str
    model: str
    layers: tuple[Layer, ...]  # the first is the word table, without positions
    occurrences: tuple[Occurrence, ...]  # of the two sentences, then of the further ones
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `--json` prints them."""
        return asdict(self)

    def __repr__(self) -> str:
        cosines = [f"{layer.name} {layer.cosine:.3f}" for layer in (self.layers[:1] + self.layers[-1:])]
        sentences = f"{len(self.occurrences)} sentences"
        return short_repr("Contrast", repr(self.word), sentences, self.model, f"cosine: {' ... '.join(cosines)}")

    def _repr_html_(self) -> str:
        rows = [(layer.name, f"{layer.cosine:.4f}") for layer in self.layers]
        return render_table(f"{self.word} in two sentences", ("layer", "cosine"), rows, list(self.notes))


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """One sentence as a model reads it."""

    sentence: str
    span: tuple[int, int]
    tokens: tuple[str, ...]
    ids: tuple[int, ...]  # of the word
    layers: tuple[Array, ...]  # the word's vector in each, the table first
    words: tuple[tuple[str, Array], ...]  # the other words in the last layer


def contrast_model(model: Model, sentences: Sequence[str], word: str) -> Contrast:
    """The word in the first two sentences layer by layer, and in all of them by the last layer."""
    spans, notes = _spans(sentences, word)
    table = model.tensor(TABLE)
    seen = [_read(model, table, text, span) for text, span in zip(sentences, spans, strict=True)]
    if model.shape.stack.causal:
        notes.append("This model reads from left to right: only the words before a word tell it apart.")
    several = [one for one in seen if len(one.ids) > 1]
    if several:
        cut = " ".join(several[0].tokens)
        notes.append(f"{to_printable(word, 40)} is cut into {to_printable(cut)}; its vector is the mean of theirs.")
    a, b = seen[0], seen[1]
    if a.ids != b.ids:
        both = " and ".join(to_printable(" ".join(one.tokens), 40) for one in (a, b))
        notes.append(f"The two are written differently, and are different rows of the word table: {both}.")
    if unknown := model.tokenizer.special_tokens_map.get("unk_token"):
        notes += [f"{to_printable(word, 40)} is unknown to the model." for one in seen[:1] if unknown in one.tokens]
    names = ["word table", "embeddings", *(f"layer {n}" for n in range(1, len(a.layers) - 1))]
    layers = [
        Layer(name=name, cosine=1.0 if name == "word table" and a.ids == b.ids else _cosine(one, two))
        for name, one, two in zip(names, a.layers, b.layers, strict=True)
    ]
    return Contrast(
        word=word,
        model=model.reference or model.family.title,
        layers=tuple(layers),
        occurrences=tuple(_occurrence(seen, place) for place in range(len(seen))),
        notes=tuple(notes),
    )


def contrast_vectors(vectors: WordVectors, sentences: Sequence[str], word: str, *, top: int = 10) -> Contrast:
    """The same for word vectors, which do not read the sentences at all."""
    spans, notes = _spans(sentences, word)
    forms = [text[start:end] for text, (start, end) in zip(sentences, spans, strict=True)]
    near = {form: vectors.neighbours([form], top=top) for form in dict.fromkeys(forms)}
    made = []
    for place, (text, (start, end), form) in enumerate(zip(sentences, spans, forms, strict=True)):
        others = [Near(text=sentences[at], cosine=vectors.cosine(form, forms[at])) for at in _others(forms, place)]
        words = tuple(Near(text=one.word, cosine=one.cosine) for one in near[form])
        senses = tuple(sorted(others, key=lambda one: -one.cosine))
        made.append(Occurrence(sentence=text, start=start, end=end, tokens=(form,), senses=senses, words=words))
    layer = Layer(name="word vectors", cosine=vectors.cosine(forms[0], forms[1]))
    if len({vectors.find(form) for form in forms[:2]}) > 1:
        notes.append(f"{forms[0]} and {forms[1]} are two words here, each with a vector of its own.")
    notes.append("A word has one vector here, whatever stands around it.")
    return Contrast(word=word, model=vectors.name, layers=(layer,), occurrences=tuple(made), notes=tuple(notes))


def word_table(model: Model) -> WordVectors:
    """The word table of a Transformer as word vectors: whole-word tokens alone, without position or context."""

    tokenizer = model.tokenizer
    table = model.tensor(TABLE)
    found: dict[str, int] = {}
    special = set(tokenizer.special_tokens_map.values())
    read_word = make_whole_word_lookup(tokenizer.vocab)
    for token, number in sorted(tokenizer.vocab.items(), key=lambda item: item[1]):
        if number < len(table) and token not in special and not NO_WORD.fullmatch(token):
            spelled = read_word(token)
            word = spelled if spelled is None or spelled.isascii() else tokenizer.decode([number]).strip()
            if word and any(map(str.isalpha, word)) and word not in found:
                found[word] = number
    if not found:
        raise InputError(f"{model.reference} has no token that is a whole word, so there are no words to compare.")
    rows = list(found.values())
    notes = (f"{len(found):,} of {len(tokenizer.vocab):,} tokens are whole words; the others are left out.",)
    return WordVectors(words=tuple(found), matrix=table[rows], name=to_printable(model.reference), notes=notes)


def _spans(sentences: Sequence[str], word: str) -> tuple[list[tuple[int, int]], list[str]]:
    """Where the word stands in each sentence, by itself and as it is written, or else in other letters."""
    if len(sentences) < 2 or len(sentences) > MOST_SENTENCES:
        raise InputError(f"A contrast takes 2 to {MOST_SENTENCES:,} sentences, and {len(sentences):,} came.")
    if not word.strip():
        raise InputError("There is no word to look for; name one that is in both sentences.")
    spans, notes = [], []
    for text in sentences:
        found = find_word(text, word)
        if not found:
            raise InputError(
                f"{to_printable(word, 40)!r} does not stand by itself in {to_printable(text)!r}; every sentence "
                "must have the word."
            )
        if len(found) > 1:
            notes.append(
                f"{to_printable(word, 40)} stands {len(found)} times in {to_printable(text)!r}; the first is taken."
            )
        spans.append(found[0])
    return spans, notes


def _read(model: Model, table: Array, text: str, span: tuple[int, int]) -> _Seen:
    import numpy as np

    encoding = model.tokenizer.encode(text, max_length=model.max_length())
    at = map_words_to_tokens(encoding, [span])[0]
    if not at:
        what = "is cut off: the sentence is too long for the model" if encoding.truncated else "has no token of its own"
        raise InputError(f"{to_printable(text[span[0] : span[1]], 40)!r} in {to_printable(text)!r} {what}.")
    ids = np.array([encoding.ids], np.int64)
    segments = np.array([encoding.segments], np.int64) if model.shape.stack.segments > 1 else None
    hidden = model.runner.encode(Batch(ids=ids, mask=None, segments=segments), layers=True, pooled=False).hidden
    rows = [encoding.ids[place] for place in at]
    words = []
    spans = find_compound_spans(text)
    for (start, end), own in zip(spans, map_words_to_tokens(encoding, spans), strict=True):
        if own and not set(own) & set(at):
            words.append((text[start:end], _mean(hidden[-1][0], own)))
    return _Seen(
        sentence=text,
        span=span,
        tokens=tuple(encoding.tokens[place] for place in at),
        ids=tuple(rows),
        layers=(_mean(table, rows), *(_mean(layer[0], at) for layer in hidden)),
        words=tuple(words),
    )


def _mean(rows: Array, at: Sequence[int]) -> Array:
    import numpy as np

    made: Array = np.asarray(rows[list(at)], np.float64).mean(0)
    return made


def _cosine(a: Array, b: Array) -> float:
    import numpy as np

    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return max(-1.0, min(1.0, float(a @ b) / lengths)) if lengths else 0.0


def _others(items: Sequence[Any], place: int) -> list[int]:
    return [at for at in range(len(items)) if at != place]


def _occurrence(seen: Sequence[_Seen], place: int) -> Occurrence:
    own = seen[place]
    last = own.layers[-1]
    senses = [Near(text=seen[at].sentence, cosine=_cosine(last, seen[at].layers[-1])) for at in _others(seen, place)]
    words = [Near(text=word, cosine=_cosine(last, vector)) for word, vector in own.words]
    return Occurrence(
        sentence=own.sentence,
        start=own.span[0],
        end=own.span[1],
        tokens=own.tokens,
        senses=tuple(sorted(senses, key=lambda one: -one.cosine)),
        words=tuple(sorted(words, key=lambda one: -one.cosine)[:NEAR]),
    )
