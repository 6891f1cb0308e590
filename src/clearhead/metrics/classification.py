"""Right and wrong, counted: accuracy, precision, recall, F1, Matthews and the confusion matrix.

`labels` and `predictions` are class numbers (rows,), or 0 and 1 (rows, labels) where a text can have several labels.
What would be divided by zero is 0, as in scikit-learn with `zero_division=0`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import Array, Given, flags, ids, numbers, one_per_row, same_rows, same_shape, table
from clearhead.metrics.weights import Weigher, average_of, metric, mixed, ratio, summer

AVERAGES = ("macro", "micro", "weighted", "binary", "samples")
MOST_CLASSES = 10_000  # a confusion matrix beyond this is a mistake: 800 MB


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How often each class was right, true and predicted; (classes, resamples) each."""

    hits: Array
    labels: Array
    predictions: Array


@dataclass(frozen=True, kw_only=True)
class LabelScore:
    """One row of the per-label table."""

    label: str
    precision: float
    recall: float
    f1: float
    rows: int  # how many rows truly have this label
    predicted: int  # how many rows were given it


Formula: TypeAlias = Callable[[Counts], tuple[Array, Array]]

PRECISION: Formula = lambda c: (c.hits, c.predictions)  # noqa: E731
RECALL: Formula = lambda c: (c.hits, c.labels)  # noqa: E731
F1: Formula = lambda c: (2 * c.hits, c.labels + c.predictions)  # noqa: E731  2PR / (P + R), without the two divisions


@metric(discrete=True, share=True)
def accuracy(labels: Given, predictions: Given) -> Weigher:
    """Share of rows whose class is right."""
    true, said = _two_ids(labels, predictions)
    return average_of((true == said).astype(np.float64))


@metric(discrete=True, share=True)
def share(correct: Given) -> Weigher:
    """Share of rows that are true."""
    return average_of(one_per_row(flags(correct, "correct"), "correct").astype(np.float64))


@metric(discrete=True, share=True)
def subset_accuracy(labels: Given, predictions: Given) -> Weigher:
    """Share of rows whose whole set of labels is right."""
    true, said = _two_tables(labels, predictions)
    return average_of((true == said).all(1).astype(np.float64))


@metric(discrete=True)
def balanced_accuracy(labels: Given, predictions: Given) -> Weigher:
    """Mean recall of the classes that occur among the labels."""
    true, said = _two_ids(labels, predictions)
    count = _counter(true, said)

    def values(weights: Array) -> Array:
        counts = count(weights)
        return ratio(ratio(counts.hits, counts.labels).sum(0), (counts.labels > 0).sum(0), np.nan)

    return Weigher(rows=len(true), values=values)


@metric(discrete=True)
def matthews(labels: Given, predictions: Given) -> Weigher:
    """Matthews correlation of labels and predictions for any number of classes; 0 when either never varies."""
    true, said = _two_ids(labels, predictions)
    count = _counter(true, said)

    def values(weights: Array) -> Array:
        counts, rows = count(weights), weights.sum(0)
        both = counts.hits.sum(0) * rows - (counts.labels * counts.predictions).sum(0)
        spread = (rows**2 - (counts.labels**2).sum(0)) * (rows**2 - (counts.predictions**2).sum(0))
        return np.clip(ratio(both, np.sqrt(spread)), -1, 1)

    return Weigher(rows=len(true), values=values)


@metric(discrete=True)
def precision(labels: Given, predictions: Given, *, average: str = "macro", positive: int = 1) -> Weigher:
    """Of the rows given a class, the share that truly have it."""
    return _averaged(labels, predictions, average, positive, PRECISION)


@metric(discrete=True)
def recall(labels: Given, predictions: Given, *, average: str = "macro", positive: int = 1) -> Weigher:
    """Of the rows that truly have a class, the share given it."""
    return _averaged(labels, predictions, average, positive, RECALL)


@metric(discrete=True)
def f1(labels: Given, predictions: Given, *, average: str = "macro", positive: int = 1) -> Weigher:
    """Harmonic mean of precision and recall: of all classes alike (macro), by size, pooled (micro), or of one."""
    return _averaged(labels, predictions, average, positive, F1)


def confusion(labels: Given, predictions: Given, n: int | None = None) -> Array:
    """How often each class (row) was called each class (column), (n, n) of int64."""
    true, said = _two_ids(labels, predictions, n)
    n = int(max(true.max(), said.max())) + 1 if n is None else n
    if n > MOST_CLASSES:
        raise InputError(f"A confusion matrix of {n} classes is too large; number the classes from 0 without gaps.")
    return np.bincount(true * n + said, minlength=n * n).reshape(n, n)


def label_table(labels: Given, predictions: Given, names: Sequence[str] | None = None) -> tuple[LabelScore, ...]:
    """Precision, recall and F1 of every class, or of every label where a text can have several."""
    if numbers(labels, "labels").ndim == 2:
        true, said = _two_tables(labels, predictions)
        hits, truths, calls = ((true & said).sum(0), true.sum(0), said.sum(0))
    else:
        counted = confusion(labels, predictions, None if names is None else len(names))
        hits, truths, calls = counted.diagonal(), counted.sum(1), counted.sum(0)
    names = [str(place) for place in range(len(hits))] if names is None else names
    if len(names) != len(hits):
        raise InputError(f"There are {len(hits)} labels and {len(names)} names; give one name per label.")
    counts = Counts(hits=hits, labels=truths, predictions=calls)
    scores = zip(*(ratio(*formula(counts)).tolist() for formula in (PRECISION, RECALL, F1)), strict=True)
    return tuple(
        LabelScore(label=name, precision=p, recall=r, f1=f, rows=int(rows), predicted=int(predicted))
        for name, (p, r, f), rows, predicted in zip(names, scores, truths, calls, strict=True)
    )


def _averaged(labels: Given, predictions: Given, average: str, positive: int, formula: Formula) -> Weigher:
    """One number from the scores of all classes."""
    several = numbers(labels, "labels").ndim == 2
    if average not in AVERAGES:
        raise InputError(f"average must be one of {', '.join(AVERAGES)}, and it is {average!r}.")
    if average == ("binary" if several else "samples"):
        raise InputError(f"average={average!r} is for {'class numbers' if several else '(rows, labels) of 0 and 1'}.")
    true, said = _two_tables(labels, predictions) if several else _two_ids(labels, predictions)
    if average == "samples":
        row = Counts(hits=(true & said).sum(1), labels=true.sum(1), predictions=said.sum(1))
        return average_of(ratio(*formula(row)))
    if average == "binary":
        if max(true.max(), said.max(), positive) > 1 or positive < 0:
            raise InputError("average='binary' is for the classes 0 and 1; use macro, micro or weighted for more.")
        count = _table_counter((true == positive)[:, None], (said == positive)[:, None])
    else:
        count = _table_counter(true, said) if several else _counter(true, said)

    def values(weights: Array) -> Array:
        counts = count(weights)
        over, under = formula(counts)
        if average == "micro":
            return ratio(over.sum(0), under.sum(0))
        scores = ratio(over, under)
        if average == "weighted":
            return ratio((scores * counts.labels).sum(0), counts.labels.sum(0))
        # a class that is neither true nor predicted has no score; a column of a table always has one
        seen = np.ones_like(scores) if scores.shape[0] == 1 or several else counts.labels + counts.predictions > 0
        return ratio(scores.sum(0), seen.sum(0))

    return Weigher(rows=len(true), values=values)


def _counter(true: Array, said: Array) -> Callable[[Array], Counts]:
    """Counts by class from the weights of rows, for the classes that occur."""
    classes, codes = np.unique(np.concatenate([true, said]), return_inverse=True)
    true, said = codes[: len(true)], codes[len(true) :]
    right = np.flatnonzero(true == said)
    by_hit, by_label, by_said = (summer(part, len(classes)) for part in (true[right], true, said))
    return lambda weights: Counts(
        hits=by_hit(weights.take(right, 0)), labels=by_label(weights), predictions=by_said(weights)
    )


def _table_counter(true: Array, said: Array) -> Callable[[Array], Counts]:
    """Counts by column from the weights of rows."""
    parts = np.stack([true & said, true, said]).transpose(0, 2, 1).astype(np.float64, order="C")  # (3, labels, rows)

    def count(weights: Array) -> Counts:
        hits, labels, predictions = mixed(parts, weights)
        return Counts(hits=hits, labels=labels, predictions=predictions)

    return count


def _two_ids(labels: Given, predictions: Given, n: int | None = None) -> tuple[Array, Array]:
    true, said = ids(labels, "labels", n=n), ids(predictions, "predictions", n=n)
    same_rows(labels=true, predictions=said)
    return true, said


def _two_tables(labels: Given, predictions: Given) -> tuple[Array, Array]:
    true, said = table(labels, "labels"), table(predictions, "predictions")
    same_shape(labels=true, predictions=said)
    return true, said
