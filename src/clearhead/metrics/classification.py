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
from clearhead.metrics.checks import (
    Array,
    ArrayLike,
    check_binary,
    check_class_ids,
    check_label_table,
    check_numbers,
    check_one_per_row,
    check_same_rows,
    check_same_shape,
)
from clearhead.metrics.weights import WeightedMetric, build_group_sum, divide_or, metric, weighted_mean, weighted_sums

AVERAGES = ("macro", "micro", "weighted", "binary", "samples")
MOST_CLASSES = 10_000  # a confusion matrix beyond this is a mistake: 800 MB


@dataclass(frozen=True, kw_only=True)
class ClassCounts:
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


Formula: TypeAlias = Callable[[ClassCounts], tuple[Array, Array]]

PRECISION: Formula = lambda c: (c.hits, c.predictions)  # noqa: E731
RECALL: Formula = lambda c: (c.hits, c.labels)  # noqa: E731
F1: Formula = lambda c: (2 * c.hits, c.labels + c.predictions)  # noqa: E731  2PR / (P + R), without the two divisions


@metric(discrete=True, share=True)
def accuracy(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Share of rows whose class is right."""
    true, said = _two_ids(labels, predictions)
    return weighted_mean((true == said).astype(np.float64))


@metric(discrete=True, share=True)
def proportion(correct: ArrayLike) -> WeightedMetric:
    """Share of rows that are true."""
    return weighted_mean(check_one_per_row(check_binary(correct, "correct"), "correct").astype(np.float64))


@metric(discrete=True, share=True)
def subset_accuracy(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Share of rows whose whole set of labels is right."""
    true, said = _two_tables(labels, predictions)
    return weighted_mean((true == said).all(1).astype(np.float64))


@metric(discrete=True)
def balanced_accuracy(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Mean recall of the classes that occur among the labels."""
    true, said = _two_ids(labels, predictions)
    count = _build_class_counter(true, said)

    def values(weights: Array) -> Array:
        counts = count(weights)
        return divide_or(divide_or(counts.hits, counts.labels).sum(0), (counts.labels > 0).sum(0), np.nan)

    return WeightedMetric(rows=len(true), values=values)


@metric(discrete=True)
def matthews_corrcoef(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Matthews correlation of labels and predictions for any number of classes; 0 when either never varies."""
    true, said = _two_ids(labels, predictions)
    count = _build_class_counter(true, said)

    def values(weights: Array) -> Array:
        counts, rows = count(weights), weights.sum(0)
        both = counts.hits.sum(0) * rows - (counts.labels * counts.predictions).sum(0)
        spread = (rows**2 - (counts.labels**2).sum(0)) * (rows**2 - (counts.predictions**2).sum(0))
        return np.clip(divide_or(both, np.sqrt(spread)), -1, 1)

    return WeightedMetric(rows=len(true), values=values)


@metric(discrete=True)
def precision(
    labels: ArrayLike, predictions: ArrayLike, *, average: str = "macro", positive: int = 1
) -> WeightedMetric:
    """Of the rows given a class, the share that truly have it."""
    return _average_classes(labels, predictions, average, positive, PRECISION)


@metric(discrete=True)
def recall(labels: ArrayLike, predictions: ArrayLike, *, average: str = "macro", positive: int = 1) -> WeightedMetric:
    """Of the rows that truly have a class, the share given it."""
    return _average_classes(labels, predictions, average, positive, RECALL)


@metric(discrete=True)
def f1(labels: ArrayLike, predictions: ArrayLike, *, average: str = "macro", positive: int = 1) -> WeightedMetric:
    """Harmonic mean of precision and recall: of all classes alike (macro), by size, pooled (micro), or of one."""
    return _average_classes(labels, predictions, average, positive, F1)


def confusion_matrix(labels: ArrayLike, predictions: ArrayLike, n: int | None = None) -> Array:
    """How often each class (row) was called each class (column), (n, n) of int64."""
    true, said = _two_ids(labels, predictions, n)
    n = int(max(true.max(), said.max())) + 1 if n is None else n
    if n > MOST_CLASSES:
        raise InputError(f"A confusion matrix of {n} classes is too large; number the classes from 0 without gaps.")
    return np.bincount(true * n + said, minlength=n * n).reshape(n, n)


def label_table(
    labels: ArrayLike, predictions: ArrayLike, names: Sequence[str] | None = None
) -> tuple[LabelScore, ...]:
    """Precision, recall and F1 of every class, or of every label where a text can have several."""
    if check_numbers(labels, "labels").ndim == 2:
        true, said = _two_tables(labels, predictions)
        hits, truths, calls = ((true & said).sum(0), true.sum(0), said.sum(0))
    else:
        counted = confusion_matrix(labels, predictions, None if names is None else len(names))
        hits, truths, calls = counted.diagonal(), counted.sum(1), counted.sum(0)
    names = [str(place) for place in range(len(hits))] if names is None else names
    if len(names) != len(hits):
        raise InputError(f"There are {len(hits)} labels and {len(names)} names; give one name per label.")
    counts = ClassCounts(hits=hits, labels=truths, predictions=calls)
    scores = zip(*(divide_or(*formula(counts)).tolist() for formula in (PRECISION, RECALL, F1)), strict=True)
    return tuple(
        LabelScore(label=name, precision=p, recall=r, f1=f, rows=int(rows), predicted=int(predicted))
        for name, (p, r, f), rows, predicted in zip(names, scores, truths, calls, strict=True)
    )


def _average_classes(
    labels: ArrayLike, predictions: ArrayLike, average: str, positive: int, formula: Formula
) -> WeightedMetric:
    """One number from the scores of all classes."""
    several = check_numbers(labels, "labels").ndim == 2
    if average not in AVERAGES:
        raise InputError(f"average must be one of {', '.join(AVERAGES)}, and it is {average!r}.")
    if average == ("binary" if several else "samples"):
        raise InputError(f"average={average!r} is for {'class numbers' if several else '(rows, labels) of 0 and 1'}.")
    true, said = _two_tables(labels, predictions) if several else _two_ids(labels, predictions)
    if average == "samples":
        row = ClassCounts(hits=(true & said).sum(1), labels=true.sum(1), predictions=said.sum(1))
        return weighted_mean(divide_or(*formula(row)))
    if average == "binary":
        if max(true.max(), said.max(), positive) > 1 or positive < 0:
            raise InputError("average='binary' is for the classes 0 and 1; use macro, micro or weighted for more.")
        count = _build_table_counter((true == positive)[:, None], (said == positive)[:, None])
    else:
        count = _build_table_counter(true, said) if several else _build_class_counter(true, said)

    def values(weights: Array) -> Array:
        counts = count(weights)
        over, under = formula(counts)
        if average == "micro":
            return divide_or(over.sum(0), under.sum(0))
        scores = divide_or(over, under)
        if average == "weighted":
            return divide_or((scores * counts.labels).sum(0), counts.labels.sum(0))
        # a class that is neither true nor predicted has no score; a column of a table always has one
        seen = np.ones_like(scores) if scores.shape[0] == 1 or several else counts.labels + counts.predictions > 0
        return divide_or(scores.sum(0), seen.sum(0))

    return WeightedMetric(rows=len(true), values=values)


def _build_class_counter(true: Array, said: Array) -> Callable[[Array], ClassCounts]:
    """Counts by class from the weights of rows, for the classes that occur."""
    classes, codes = np.unique(np.concatenate([true, said]), return_inverse=True)
    true, said = codes[: len(true)], codes[len(true) :]
    right = np.flatnonzero(true == said)
    by_hit, by_label, by_said = (build_group_sum(part, len(classes)) for part in (true[right], true, said))
    return lambda weights: ClassCounts(
        hits=by_hit(weights.take(right, 0)), labels=by_label(weights), predictions=by_said(weights)
    )


def _build_table_counter(true: Array, said: Array) -> Callable[[Array], ClassCounts]:
    """Counts by column from the weights of rows."""
    parts = np.stack([true & said, true, said]).transpose(0, 2, 1).astype(np.float64, order="C")  # (3, labels, rows)

    def count(weights: Array) -> ClassCounts:
        hits, labels, predictions = weighted_sums(parts, weights)
        return ClassCounts(hits=hits, labels=labels, predictions=predictions)

    return count


def _two_ids(labels: ArrayLike, predictions: ArrayLike, n: int | None = None) -> tuple[Array, Array]:
    true, said = check_class_ids(labels, "labels", n=n), check_class_ids(predictions, "predictions", n=n)
    check_same_rows(labels=true, predictions=said)
    return true, said


def _two_tables(labels: ArrayLike, predictions: ArrayLike) -> tuple[Array, Array]:
    true, said = check_label_table(labels, "labels"), check_label_table(predictions, "predictions")
    check_same_shape(labels=true, predictions=said)
    return true, said
