"""Words and their vectors as one value: lookup, neighbours, `king - man + woman`, and the mean of a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property

import numpy as np

from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.metrics.checks import Array, ArrayLike
from clearhead.text.words import split_vector_words

SIGNS = {"+": 1.0, "-": -1.0, "−": -1.0, "–": -1.0}
BLOCK = 1 << 22  # numbers of scores that are held at a time
SEARCHED = 50_000  # words among which a word that is not there is looked for by its letters


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A word and how near it is, as the cosine of the angle between two vectors."""

    word: str
    cosine: float


@dataclass(frozen=True, kw_only=True, eq=False)
class WordVectors:
    """One vector for each word, whatever stands around it."""

    words: tuple[str, ...]
    matrix: Array  # (words, width) float32
    counts: Array | None = None  # (words,) how often each word was read, where that is known
    name: str = "vectors"
    notes: tuple[str, ...] = ()  # what people should know about the file that they came from

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or len(self.matrix) != len(self.words) or not self.matrix.size:
            sides = " x ".join(map(str, self.matrix.shape))
            raise InputError(f"{len(self.words):,} words need as many vectors, and the matrix is {sides}.")
        if self.counts is not None and len(self.counts) != len(self.words):
            raise InputError(f"{len(self.words):,} words need as many counts, and there are {len(self.counts):,}.")
        if len(self.places) != len(self.words):
            raise InputError("A word stands twice, so it is not clear which vector is its own.")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.find(word) is not None

    def __getitem__(self, word: str) -> Array:
        return self.vector(word)

    def __repr__(self) -> str:
        return f"WordVectors({to_printable(self.name)}: {len(self):,} words, width {self.width})"

    @property
    def width(self) -> int:
        """How many numbers a word has."""
        return int(self.matrix.shape[1])

    @cached_property
    def places(self) -> dict[str, int]:
        """The row of each word."""
        return {word: place for place, word in enumerate(self.words)}

    @cached_property
    def lengths(self) -> Array:
        """(words,) the length of each vector; cosines are products divided by it, so that no second copy is kept."""
        squares = np.empty(len(self), np.float32)
        for part in self._parts():
            squares[part] = np.einsum("ij,ij->i", self.matrix[part], self.matrix[part])
        return np.maximum(np.sqrt(squares), 1e-12)

    def find(self, word: str) -> int | None:
        """The row of a word as it is written, or else in small letters; None if there is none."""
        place = self.places.get(word)
        return self.places.get(word.lower()) if place is None else place

    def place(self, word: str) -> int:
        """The same, or a sentence that says what is not there."""
        found = self.find(word)
        if found is None:
            near = get_close_matches(word.lower(), self.words[:SEARCHED], n=1, cutoff=0.75)
            hint = f"; did you mean {to_printable(near[0], 40)}?" if near else "."
            raise InputError(
                f"{to_printable(word, 40)!r} is not among the {len(self):,} words of {to_printable(self.name)}{hint}"
            )
        return found

    def vector(self, word: str) -> Array:
        """The vector of a word."""
        row: Array = self.matrix[self.place(word)]
        return row

    def cosine(self, first: str, second: str) -> float:
        """How alike two words are, from -1 to 1."""
        a, b = self.place(first), self.place(second)
        if a == b:
            return 1.0
        product = float(self.matrix[a].astype(np.float64) @ self.matrix[b].astype(np.float64))
        return product / float(self.lengths[a]) / float(self.lengths[b])

    def neighbours(self, asked: str | Sequence[str], *, top: int = 10) -> list[Neighbour]:
        """The nearest words of a word, or of a sum such as `king - man + woman`; the words asked about are left out."""
        added, taken = expression(asked)
        return self.analogy(added, taken, top=top)

    def analogy(self, added: Sequence[str], taken: Sequence[str] = (), *, top: int = 10) -> list[Neighbour]:
        """What is nearest to words added up and others taken away (3CosAdd)."""
        if top < 1:
            raise InputError(f"top must be at least 1, and it is {top}.")
        if not added and not taken:
            raise InputError("There is no word to look for.")
        rows = [self.place(word) for word in (*added, *taken)]
        signs = np.array([1.0] * len(added) + [-1.0] * len(taken), np.float32)
        # argmax over w of cos(w, b - a + c), each of them of length 1 (Mikolov et al. 2013)
        target = signs @ (self.matrix[rows] / self.lengths[rows, None])
        return self.nearest(target, top=top, without=rows)

    def nearest(self, vector: ArrayLike, *, top: int = 10, without: Iterable[int] = ()) -> list[Neighbour]:
        """The words nearest to a vector, by one product with all of them."""
        target = np.asarray(vector, np.float32)
        if target.shape != (self.width,):
            raise InputError(f"A vector here has {self.width} numbers, and this one is {target.shape}.")
        scores = (self.matrix @ target) / self.lengths / max(float(np.linalg.norm(target)), 1e-12)
        scores[list(without)] = -np.inf
        some = min(top, len(self))
        best = np.argpartition(-scores, some - 1)[:some]
        best = best[np.lexsort((best, -scores[best]))]
        return [Neighbour(word=self.words[i], cosine=float(scores[i])) for i in best if scores[i] > -np.inf]

    def solve(self, questions: Array) -> Array:
        """(questions,) the row that answers each `a is to b as c is to ...`, the question's own words left out."""
        answers = np.empty(len(questions), np.int64)
        size = max(1, BLOCK // len(self))
        for start in range(0, len(questions), size):
            some = questions[start : start + size]
            unit = self.matrix[some] / self.lengths[some, None]
            scores = (unit[:, 1] - unit[:, 0] + unit[:, 2]) @ self.matrix.T / self.lengths
            np.put_along_axis(scores, some, -np.inf, axis=1)
            answers[start : start + size] = scores.argmax(1)
        return answers

    def rows_of(self, text: str) -> list[int]:
        """The rows of the words of a text that are known, with repeats."""
        return [place for word in split_vector_words(text) for place in self._known(word)]

    def mean(self, texts: Sequence[str]) -> Array:
        """(texts, width) the mean vector of each text's known words; zeros where no word is known."""
        made = np.zeros((len(texts), self.width), np.float32)
        for number, text in enumerate(texts):
            if rows := self.rows_of(text):
                made[number] = self.matrix[rows].mean(0)
        return made

    @cached_property
    def usual(self) -> Array:
        """The mean vector of text as such: words by how often they come, or else by their places in the file."""
        often = 1 / np.arange(1.0, len(self) + 1) if self.counts is None else np.asarray(self.counts, np.float64)
        made: Array = (often / max(often.sum(), 1e-12)) @ self.matrix
        return made.astype(np.float32)

    def features(self, texts: Sequence[str], seconds: Sequence[str] | None = None) -> Array:
        """(texts, width) means; of two texts a row, both, how far they are apart and what they share, side by side.

        A text without a known word says nothing, and counts as one of usual words.
        """
        first = self._means_or_usual(texts)
        if seconds is None:
            return first
        second = self._means_or_usual(seconds)
        return np.concatenate([first, second, np.abs(first - second), first * second], 1)

    def _means_or_usual(self, texts: Sequence[str]) -> Array:
        made = self.mean(texts)
        made[~made.any(1)] = self.usual
        return made

    def select(self, rows: Sequence[int]) -> WordVectors:
        """Some of the words, in the order given."""
        counts = None if self.counts is None else self.counts[list(rows)]
        words = tuple(self.words[row] for row in rows)
        return replace(self, words=words, matrix=np.ascontiguousarray(self.matrix[list(rows)]), counts=counts)

    def _known(self, word: str) -> list[int]:
        """A word, or else the parts that an apostrophe joins."""
        found = self.find(word)
        if found is not None:
            return [found]
        parts = word.split("'") if "'" in word else []
        return [place for part in parts if (place := self.find(part)) is not None]

    def _parts(self) -> Iterator[slice]:
        size = max(1, BLOCK // self.width)
        return (slice(start, start + size) for start in range(0, len(self), size))


def expression(asked: str | Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that are added and those that are taken away in `king - man + woman`."""
    parts = asked.split() if isinstance(asked, str) else [part for one in asked for part in one.split()]
    added: list[str] = []
    taken: list[str] = []
    sign, waiting = 1.0, True
    for part in parts:
        if part in SIGNS:
            if waiting and (added or taken):
                raise InputError("Two signs follow each other; write words with + or - between them.")
            sign, waiting = SIGNS[part], True
        else:
            if not waiting:
                raise InputError(f"Put + or - before {to_printable(part, 40)!r}, as in: king - man + woman.")
            (added if sign > 0 else taken).append(part)
            waiting = False
    if waiting:
        raise InputError("Give a word, or words with + and - between them, as in: king - man + woman.")
    return added, taken
