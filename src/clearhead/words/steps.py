"""One step of word2vec on a block of text: skip-gram and CBOW as products of small matrices."""

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
    """Training settings of word vectors; the defaults are those of word2vec and gensim."""

    mode: Mode = "skipgram"  # predict the context from a word, or a word from its context
    width: int = 100
    window: int = 5  # maximum context words per side; each word draws its own number, so that near words weigh more
    negative: int = 5  # negative samples per context word
    min_count: int = 5  # rarer words are removed from the text
    epochs: int = 5
    learning_rate: float = 0.025  # decays linearly to `min_learning_rate`
    min_learning_rate: float = 0.0001
    sample: float = 1e-3  # words above this frequency are randomly skipped; 0: never
    seed: int = 0
    threads: int = 1  # results are reproducible only with one thread

    def check(self) -> None:
        """Refuse the first invalid setting."""
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
            (0 <= self.seed < 1 << 63, "seed must be an integer >= 0"),
            (1 <= self.threads <= 64, "threads must be from 1 to 64"),
        )
        for is_valid, problem in rules:
            if not is_valid:
                raise InputError(f"Invalid word2vec settings: {problem}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class EmbeddingTables:
    """The trained matrices, and the sampling distributions."""

    inputs: Array  # (words, width): the resulting vectors
    outputs: Array  # (words, width): the output layer
    keep_probs: Array  # (words,): probability of keeping an occurrence
    negative_cdf: Array  # (words,): cumulative distribution of negative samples
    top_share: float  # share of the most frequent word after subsampling


class _BandMatrix:
    """A band matrix (center words, context words) that is filled without a loop."""

    def __init__(self, length: int, window: int) -> None:
        self.matrix = np.zeros((length, length + 2 * window), np.float32)
        row, cell = self.matrix.strides
        self.diagonals = np.lib.stride_tricks.as_strided(self.matrix, (length, 2 * window + 1), (row + cell, cell))

    def fill(self, weights: Array) -> Array:
        """Return the matrix with these weights; the next call overwrites it."""
        self.diagonals[:] = weights
        return self.matrix


class Skipgram:
    """Each context word predicts the center word, and not the negative samples."""

    def __init__(self, tables: EmbeddingTables, settings: WordSettings, length: int) -> None:
        self.tables, self.negative, self.window = tables, settings.negative, settings.window
        self.context = _BandMatrix(length, settings.window)
        self.flat_index = FlatIndex(tables.inputs.shape[1])

    def train_block(self, context_words: Array, samples: Array, weights: Array, learning_rate: float) -> None:
        """Update the tables with one block."""
        inputs, outputs = self.tables.inputs, self.tables.outputs
        context = self.context.fill(weights)
        size = len(context)
        center_words = context_words[self.window : self.window + size]
        targets = outputs.take(np.concatenate((center_words, samples)), 0)
        context_vectors = inputs.take(context_words, 0)
        # the derivative of log s(u.v) is 1 - s(u.v), of log s(-u.v) -s(u.v); no word is its own negative sample
        gradient = _sigmoid(targets @ context_vectors.T)  # (center words and samples, context words)
        positive, negative = gradient[:size], gradient[size:]
        np.subtract(1, positive, out=positive)
        positive *= context
        negative *= context.sum(0) - (samples[:, None] == center_words).astype(np.float32) @ context
        positive *= np.float32(learning_rate)
        negative *= np.float32(-learning_rate * self.negative / len(samples))
        output_change = gradient @ context_vectors
        index = self.flat_index(context_words)
        add_rows(inputs, index, gradient.T @ targets)
        add_rows(outputs, index[self.window : self.window + size], output_change[:size])
        add_rows(outputs, self.flat_index(samples), output_change[size:])


class Cbow:
    """The mean of the context words predicts the center word, and not the negative samples."""

    def __init__(self, tables: EmbeddingTables, settings: WordSettings, length: int) -> None:
        self.tables, self.negative, self.window = tables, settings.negative, settings.window
        self.context = _BandMatrix(length, settings.window)
        self.flat_index = FlatIndex(tables.inputs.shape[1])

    def train_block(self, context_words: Array, samples: Array, weights: Array, learning_rate: float) -> None:
        """Update the tables with one block."""
        inputs, outputs = self.tables.inputs, self.tables.outputs
        context = self.context.fill(weights)
        size = len(context)
        center_words = context_words[self.window : self.window + size]
        positive, negative = outputs.take(center_words, 0), outputs.take(samples, 0)
        count = weights.sum(1)
        mean = context @ inputs.take(context_words, 0)  # (center words, width)
        mean *= (1 / np.maximum(count, 1))[:, None]
        scale = np.minimum(count, 1) * np.float32(learning_rate)  # no update without context words
        positive_gradient = scale - scale * _sigmoid(np.einsum("ij,ij->i", mean, positive))
        negative_gradient = _sigmoid(mean @ negative.T)
        negative_gradient *= center_words[:, None] != samples
        negative_gradient *= (scale * np.float32(-self.negative / len(samples)))[:, None]
        positive *= positive_gradient[:, None]
        positive += negative_gradient @ negative  # each context word gets the full error, as in word2vec
        index = self.flat_index(context_words)
        add_rows(inputs, index, context.T @ positive)
        add_rows(outputs, self.flat_index(samples), negative_gradient.T @ mean)
        mean *= positive_gradient[:, None]
        add_rows(outputs, index[self.window : self.window + size], mean)


def _sigmoid(scores: Array) -> Array:
    np.negative(scores, out=scores)
    np.exp(scores, out=scores)
    scores += 1
    np.reciprocal(scores, out=scores)
    return scores


class FlatIndex:
    """Flat indices of the numbers of rows in a table, as pairs (complex numbers) if the width is even."""

    def __init__(self, width: int) -> None:
        self.width = width if width % 2 else width // 2
        self.columns = np.arange(self.width)

    def __call__(self, rows: Array) -> Array:
        index: Array = np.add.outer(rows * self.width, self.columns)
        return index


def add_rows(table: Array, index: Array, change: Array) -> None:
    """Add rows to a table; repeated rows are added repeatedly."""
    if index.shape[1] < table.shape[1]:
        table, change = table.view(np.complex64), change.view(np.complex64)
    np.add.at(table.reshape(-1), index.reshape(-1), change.reshape(-1))
