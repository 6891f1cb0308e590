"""Word vectors: lookup, nearest neighbors, analogies such as `king - man + woman`, and mean vectors of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property

import numpy as np

from clearhead.deprecation import renamed_fields
from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.metrics.checks import Array, ArrayLike
from clearhead.text.words import split_vector_words

SIGNS = {"+": 1.0, "-": -1.0, "−": -1.0, "–": -1.0}
BLOCK_NUMBERS = 1 << 22  # scores that are kept in memory at a time
SUGGESTION_WORDS = 50_000  # most frequent words that are suggested for an unknown word


@dataclass(frozen=True, kw_only=True)
class Neighbor:
    """A word with its cosine similarity."""

    word: str
    cosine: float


@renamed_fields(
    neighbours="neighbors",
    place="row",
    places="row_of_word",
    lengths="norms",
    solve="solve_analogies",
    rows_of="text_rows",
    usual="typical_vector",
)
@dataclass(frozen=True, kw_only=True, eq=False)
class WordVectors:
    """Static word vectors: one vector per word, independent of context."""

    words: tuple[str, ...]
    matrix: Array  # (words, width) float32
    counts: Array | None = None  # (words,): frequency in the training text, if known
    name: str = "vectors"
    notes: tuple[str, ...] = ()  # messages about the file

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or len(self.matrix) != len(self.words) or not self.matrix.size:
            shape = " x ".join(map(str, self.matrix.shape))
            raise InputError(f"Expected {len(self.words):,} vectors, one per word, got a matrix of shape {shape}.")
        if self.counts is not None and len(self.counts) != len(self.words):
            raise InputError(f"Expected {len(self.words):,} counts, one per word, got {len(self.counts):,}.")
        if len(self.row_of_word) != len(self.words):
            raise InputError("A word occurs twice, so its vector is ambiguous.")

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
        """Dimension of the vectors."""
        return int(self.matrix.shape[1])

    @cached_property
    def row_of_word(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def norms(self) -> Array:
        """(words,) Euclidean norms; cosines divide by them, so that no normalized copy is needed."""
        squares = np.empty(len(self), np.float32)
        for block in self._row_blocks():
            squares[block] = np.einsum("ij,ij->i", self.matrix[block], self.matrix[block])
        return np.maximum(np.sqrt(squares), 1e-12)

    def find(self, word: str) -> int | None:
        """Return the row of a word, or of its lower-case form; None if it is unknown."""
        row = self.row_of_word.get(word)
        return self.row_of_word.get(word.lower()) if row is None else row

    def row(self, word: str) -> int:
        """Return the row of a word; an unknown word is an error with a suggestion."""
        row = self.find(word)
        if row is None:
            suggestions = get_close_matches(word.lower(), self.words[:SUGGESTION_WORDS], n=1, cutoff=0.75)
            hint = f"; did you mean {to_printable(suggestions[0], 40)}?" if suggestions else "."
            raise InputError(
                f"{to_printable(word, 40)!r} is not among the {len(self):,} words of {to_printable(self.name)}{hint}"
            )
        return row

    def vector(self, word: str) -> Array:
        """Return the vector of a word."""
        row: Array = self.matrix[self.row(word)]
        return row

    def cosine(self, first: str, second: str) -> float:
        """Return the cosine similarity of two words."""
        a, b = self.row(first), self.row(second)
        if a == b:
            return 1.0
        product = float(self.matrix[a].astype(np.float64) @ self.matrix[b].astype(np.float64))
        return product / float(self.norms[a]) / float(self.norms[b])

    def neighbors(self, query: str | Sequence[str], *, top: int = 10) -> list[Neighbor]:
        """Return the nearest words of a word or an expression such as `king - man + woman`, without its own words."""
        added, subtracted = parse_expression(query)
        return self.analogy(added, subtracted, top=top)

    def analogy(self, added: Sequence[str], subtracted: Sequence[str] = (), *, top: int = 10) -> list[Neighbor]:
        """Return the words nearest to the sum of some words minus others (3CosAdd)."""
        if top < 1:
            raise InputError(f"top must be an integer >= 1, got {top}.")
        if not added and not subtracted:
            raise InputError("No words were given.")
        rows = [self.row(word) for word in (*added, *subtracted)]
        signs = np.array([1.0] * len(added) + [-1.0] * len(subtracted), np.float32)
        # argmax over w of cos(w, b - a + c), with unit vectors (Mikolov et al. 2013)
        target = signs @ (self.matrix[rows] / self.norms[rows, None])
        return self.nearest(target, top=top, without=rows)

    def nearest(self, vector: ArrayLike, *, top: int = 10, without: Iterable[int] = ()) -> list[Neighbor]:
        """Return the words nearest to a vector, by exhaustive search."""
        target = np.asarray(vector, np.float32)
        if target.shape != (self.width,):
            raise InputError(f"Expected a vector with {self.width} numbers, got shape {target.shape}.")
        scores = (self.matrix @ target) / self.norms / max(float(np.linalg.norm(target)), 1e-12)
        scores[list(without)] = -np.inf
        count = min(top, len(self))
        best = np.argpartition(-scores, count - 1)[:count]
        best = best[np.lexsort((best, -scores[best]))]
        return [Neighbor(word=self.words[i], cosine=float(scores[i])) for i in best if scores[i] > -np.inf]

    def solve_analogies(self, questions: Array) -> Array:
        """Return the row that answers each analogy `a is to b as c is to ...`, without the words of the question."""
        answers = np.empty(len(questions), np.int64)
        size = max(1, BLOCK_NUMBERS // len(self))
        for start in range(0, len(questions), size):
            block = questions[start : start + size]
            unit = self.matrix[block] / self.norms[block, None]
            scores = (unit[:, 1] - unit[:, 0] + unit[:, 2]) @ self.matrix.T / self.norms
            np.put_along_axis(scores, block, -np.inf, axis=1)
            answers[start : start + size] = scores.argmax(1)
        return answers

    def text_rows(self, text: str) -> list[int]:
        """Return the rows of the known words of a text, with repetitions."""
        return [row for word in split_vector_words(text) for row in self._find_rows(word)]

    def mean(self, texts: Sequence[str]) -> Array:
        """Return (texts, width) mean vectors of the known words; zeros if no word is known."""
        means = np.zeros((len(texts), self.width), np.float32)
        for index, text in enumerate(texts):
            if rows := self.text_rows(text):
                means[index] = self.matrix[rows].mean(0)
        return means

    @cached_property
    def typical_vector(self) -> Array:
        """The mean vector of typical text: words weighted by frequency, or by rank if counts are unknown."""
        weights = 1 / np.arange(1.0, len(self) + 1) if self.counts is None else np.asarray(self.counts, np.float64)
        mean: Array = (weights / max(weights.sum(), 1e-12)) @ self.matrix
        return mean.astype(np.float32)

    def features(self, texts: Sequence[str], seconds: Sequence[str] | None = None) -> Array:
        """Return (texts, width) means; for pairs, both means, their absolute difference and their product.

        A text without known words gets the vector of typical text.
        """
        first = self._means_or_typical(texts)
        if seconds is None:
            return first
        second = self._means_or_typical(seconds)
        return np.concatenate([first, second, np.abs(first - second), first * second], 1)

    def _means_or_typical(self, texts: Sequence[str]) -> Array:
        means = self.mean(texts)
        means[~means.any(1)] = self.typical_vector
        return means

    def select(self, rows: Sequence[int]) -> WordVectors:
        """Return some of the words, in the given order."""
        counts = None if self.counts is None else self.counts[list(rows)]
        words = tuple(self.words[row] for row in rows)
        return replace(self, words=words, matrix=np.ascontiguousarray(self.matrix[list(rows)]), counts=counts)

    def _find_rows(self, word: str) -> list[int]:
        """Return the row of a word, or those of its parts around an apostrophe."""
        row = self.find(word)
        if row is not None:
            return [row]
        parts = word.split("'") if "'" in word else []
        return [part_row for part in parts if (part_row := self.find(part)) is not None]

    def _row_blocks(self) -> Iterator[slice]:
        size = max(1, BLOCK_NUMBERS // self.width)
        return (slice(start, start + size) for start in range(0, len(self), size))


def parse_expression(query: str | Sequence[str]) -> tuple[list[str], list[str]]:
    """Parse `king - man + woman` into added and subtracted words."""
    parts = query.split() if isinstance(query, str) else [part for text in query for part in text.split()]
    added: list[str] = []
    subtracted: list[str] = []
    sign, expects_word = 1.0, True
    for part in parts:
        if part in SIGNS:
            if expects_word and (added or subtracted):
                raise InputError("Two signs in a row; write words with + or - between them.")
            sign, expects_word = SIGNS[part], True
        else:
            if not expects_word:
                raise InputError(f"Put + or - before {to_printable(part, 40)!r}, as in: king - man + woman.")
            (added if sign > 0 else subtracted).append(part)
            expects_word = False
    if expects_word:
        raise InputError("Expected a word, or words with + and - between them, as in: king - man + woman.")
    return added, subtracted
