"""One step of word2vec on a stretch of text: skip-gram and CBOW as products of small matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from clearhead.deprecation import renamed_fields
from clearhead.errors import InputError
from clearhead.metrics.checks import Array

Mode = Literal["skipgram", "cbow"]


@renamed_fields(rate="learning_rate", last_rate="min_learning_rate")
@dataclass(frozen=True, kw_only=True)
class WordSettings:
    """How vectors are learned; the defaults are those of word2vec and gensim."""

    mode: Mode = "skipgram"  # guess the neighbours of a word, or a word from its neighbours
    width: int = 100
    window: int = 5  # neighbours on each side, at most: each word draws its own number, so that near ones count more
    negative: int = 5  # words that are not neighbours, for each one that is
    min_count: int = 5  # rarer words are left out of the text
    epochs: int = 5
    learning_rate: float = 0.025  # decays linearly to `min_learning_rate`
    min_learning_rate: float = 0.0001
    sample: float = 1e-3  # words more frequent than this share are often passed over; 0: none is
    seed: int = 0
    threads: int = 1  # with one, the same seed gives the same vectors

    def check(self) -> None:
        """One sentence for the first setting that cannot be."""
        rules = (
            (self.mode in get_args(Mode), f"mode must be one of {', '.join(get_args(Mode))}"),
            (1 <= self.width <= 4096, "width must be from 1 to 4096"),
            (1 <= self.window <= 100, "window must be from 1 to 100"),
            (1 <= self.negative <= 100, "negative must be from 1 to 100"),
            (self.min_count >= 1, "min_count must be at least 1"),
            (1 <= self.epochs <= 10_000, "epochs must be from 1 to 10,000"),
            (0 < self.learning_rate <= 1, "learning_rate must be above 0 and at most 1"),
            (0 <= self.min_learning_rate <= self.learning_rate, "min_learning_rate must be from 0 to learning_rate"),
            (0 <= self.sample <= 1, "sample must be from 0 to 1"),
            (0 <= self.seed < 1 << 63, "seed must be a whole number from 0"),
            (1 <= self.threads <= 64, "threads must be from 1 to 64"),
        )
        for holds, said in rules:
            if not holds:
                raise InputError(f"Settings of word2vec: {said}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """What is learned, and what the samples are drawn by."""

    inputs: Array  # (words, width) the vectors that are kept
    outputs: Array  # (words, width) those that guesses are compared with
    keep: Array  # (words,) the chance that an occurrence is learned from
    drawn: Array  # (words,) the share of negative samples up to and with each word
    often: float  # the share of the most frequent word in what is learned from


class _Band:
    """A matrix (middle, around) that is zero but for the neighbours of each word, filled without a loop."""

    def __init__(self, length: int, window: int) -> None:
        self.matrix = np.zeros((length, length + 2 * window), np.float32)
        row, cell = self.matrix.strides
        self.band = np.lib.stride_tricks.as_strided(self.matrix, (length, 2 * window + 1), (row + cell, cell))

    def fill(self, weights: Array) -> Array:
        """The matrix with these weights, until it is filled again."""
        self.band[:] = weights
        return self.matrix


class Skipgram:
    """Each neighbour guesses the word in the middle, and not the samples."""

    def __init__(self, tables: Tables, settings: WordSettings, length: int) -> None:
        self.tables, self.negative, self.window = tables, settings.negative, settings.window
        self.pairs = _Band(length, settings.window)
        self.cells = Cells(tables.inputs.shape[1])

    def learn(self, around: Array, samples: Array, weights: Array, rate: float) -> None:
        """One step on a stretch."""
        inputs, outputs = self.tables.inputs, self.tables.outputs
        pairs = self.pairs.fill(weights)
        size = len(pairs)
        middle = around[self.window : self.window + size]
        left = outputs.take(np.concatenate((middle, samples)), 0)
        entered = inputs.take(around, 0)
        # log s(u.v) has the slope 1 - s(u.v), and log s(-u.v) has -s(u.v); a sample says nothing about itself
        slope = _sigmoid(left @ entered.T)  # (middle and samples, around)
        right, wrong = slope[:size], slope[size:]
        np.subtract(1, right, out=right)
        right *= pairs
        wrong *= pairs.sum(0) - (samples[:, None] == middle).astype(np.float32) @ pairs
        right *= np.float32(rate)
        wrong *= np.float32(-rate * self.negative / len(samples))
        change = slope @ entered
        cells = self.cells(around)
        add(inputs, cells, slope.T @ left)
        add(outputs, cells[self.window : self.window + size], change[:size])
        add(outputs, self.cells(samples), change[size:])


class Cbow:
    """The mean of the neighbours guesses the word in the middle, and not the samples."""

    def __init__(self, tables: Tables, settings: WordSettings, length: int) -> None:
        self.tables, self.negative, self.window = tables, settings.negative, settings.window
        self.pairs = _Band(length, settings.window)
        self.cells = Cells(tables.inputs.shape[1])

    def learn(self, around: Array, samples: Array, weights: Array, rate: float) -> None:
        """One step on a stretch."""
        inputs, outputs = self.tables.inputs, self.tables.outputs
        pairs = self.pairs.fill(weights)
        size = len(pairs)
        middle = around[self.window : self.window + size]
        right, wrong = outputs.take(middle, 0), outputs.take(samples, 0)
        count = weights.sum(1)
        mean = pairs @ inputs.take(around, 0)  # (middle, width)
        mean *= (1 / np.maximum(count, 1))[:, None]
        some = np.minimum(count, 1) * np.float32(rate)  # a word alone has nothing that could guess it
        up = some - some * _sigmoid(np.einsum("ij,ij->i", mean, right))
        down = _sigmoid(mean @ wrong.T)
        down *= middle[:, None] != samples
        down *= (some * np.float32(-self.negative / len(samples)))[:, None]
        right *= up[:, None]
        right += down @ wrong  # the error of each word, in full to each of its neighbours as word2vec does
        cells = self.cells(around)
        add(inputs, cells, pairs.T @ right)
        add(outputs, self.cells(samples), down.T @ mean)
        mean *= up[:, None]
        add(outputs, cells[self.window : self.window + size], mean)


def _sigmoid(scores: Array) -> Array:
    np.negative(scores, out=scores)
    np.exp(scores, out=scores)
    scores += 1
    np.reciprocal(scores, out=scores)
    return scores


class Cells:
    """Where the numbers of some rows lie in a table; two of them at a time where the width is even."""

    def __init__(self, width: int) -> None:
        self.width = width if width % 2 else width // 2
        self.columns = np.arange(self.width)

    def __call__(self, rows: Array) -> Array:
        made: Array = np.add.outer(rows * self.width, self.columns)
        return made


def add(table: Array, cells: Array, change: Array) -> None:
    """Add rows to a table; a row that comes twice is added twice."""
    if cells.shape[1] < table.shape[1]:
        table, change = table.view(np.complex64), change.view(np.complex64)
    np.add.at(table.reshape(-1), cells.reshape(-1), change.reshape(-1))
