"""Classification metrics: accuracy, precision, recall, F1, Matthews correlation and the confusion matrix.

`labels` and `predictions` are class ids (rows,), or 0 and 1 (rows, labels) for multi-label data.
A division by zero yields 0, as in scikit-learn with `zero_division=0`.
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
MAX_CLASSES = 10_000  # a larger confusion matrix (over 800 MB) is most likely a mistake


@dataclass(frozen=True, kw_only=True)
class ClassCounts:
    """Correct predictions, labels and predictions of each class; (classes, resamples) each."""

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
    rows: int  # rows that have this label (support)
    predicted: int  # rows for which it was predicted


Formula: TypeAlias = Callable[[ClassCounts], tuple[Array, Array]]

PRECISION: Formula = lambda c: (c.hits, c.predictions)  # noqa: E731
RECALL: Formula = lambda c: (c.hits, c.labels)  # noqa: E731
F1: Formula = lambda c: (2 * c.hits, c.labels + c.predictions)  # noqa: E731  2PR / (P + R), without the two divisions


@metric(is_discrete=True, is_proportion=True)
def accuracy(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Fraction of rows whose class is correct."""
    true, predicted = _check_class_pair(labels, predictions)
    return weighted_mean((true == predicted).astype(np.float64))


@metric(is_discrete=True, is_proportion=True)
def proportion(correct: ArrayLike) -> WeightedMetric:
    """Fraction of rows that are true."""
    return weighted_mean(check_one_per_row(check_binary(correct, "correct"), "correct").astype(np.float64))


@metric(is_discrete=True, is_proportion=True)
def subset_accuracy(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Fraction of rows whose label sets match exactly."""
    true, predicted = _check_table_pair(labels, predictions)
    return weighted_mean((true == predicted).all(1).astype(np.float64))


@metric(is_discrete=True)
def balanced_accuracy(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Mean recall of the classes that occur in the labels."""
    true, predicted = _check_class_pair(labels, predictions)
    count = _build_class_counter(true, predicted)

    def values(weights: Array) -> Array:
        counts = count(weights)
        return divide_or(divide_or(counts.hits, counts.labels).sum(0), (counts.labels > 0).sum(0), np.nan)

    return WeightedMetric(rows=len(true), values=values)


@metric(is_discrete=True)
def matthews_corrcoef(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Matthews correlation coefficient for any number of classes; 0 if labels or predictions are constant."""
    true, predicted = _check_class_pair(labels, predictions)
    count = _build_class_counter(true, predicted)

    def values(weights: Array) -> Array:
        counts, rows = count(weights), weights.sum(0)
        covariance = counts.hits.sum(0) * rows - (counts.labels * counts.predictions).sum(0)
        variances = (rows**2 - (counts.labels**2).sum(0)) * (rows**2 - (counts.predictions**2).sum(0))
        return np.clip(divide_or(covariance, np.sqrt(variances)), -1, 1)

    return WeightedMetric(rows=len(true), values=values)


@metric(is_discrete=True)
def precision(
    labels: ArrayLike, predictions: ArrayLike, *, average: str = "macro", positive: int = 1
) -> WeightedMetric:
    """Fraction of the rows predicted as a class that belong to it."""
    return _average_classes(labels, predictions, average, positive, PRECISION)


@metric(is_discrete=True)
def recall(labels: ArrayLike, predictions: ArrayLike, *, average: str = "macro", positive: int = 1) -> WeightedMetric:
    """Fraction of the rows of a class that are predicted as it."""
    return _average_classes(labels, predictions, average, positive, RECALL)


@metric(is_discrete=True)
def f1(labels: ArrayLike, predictions: ArrayLike, *, average: str = "macro", positive: int = 1) -> WeightedMetric:
    """Harmonic mean of precision and recall, averaged over classes (macro, weighted), pooled (micro) or binary."""
    return _average_classes(labels, predictions, average, positive, F1)


def confusion_matrix(labels: ArrayLike, predictions: ArrayLike, n: int | None = None) -> Array:
    """Count rows by true class (row) and predicted class (column), (n, n) of int64."""
    true, predicted = _check_class_pair(labels, predictions, n)
    n = int(max(true.max(), predicted.max())) + 1 if n is None else n
    if n > MAX_CLASSES:
        raise InputError(f"A confusion matrix of {n} classes is too large; number the classes from 0 without gaps.")
    return np.bincount(true * n + predicted, minlength=n * n).reshape(n, n)


def label_table(
    labels: ArrayLike, predictions: ArrayLike, names: Sequence[str] | None = None
) -> tuple[LabelScore, ...]:
    """Precision, recall and F1 of every class, or of every label of multi-label data."""
    if check_numbers(labels, "labels").ndim == 2:
        true, predicted = _check_table_pair(labels, predictions)
        hits, true_counts, prediction_counts = ((true & predicted).sum(0), true.sum(0), predicted.sum(0))
    else:
        confusion = confusion_matrix(labels, predictions, None if names is None else len(names))
        hits, true_counts, prediction_counts = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    names = [str(index) for index in range(len(hits))] if names is None else names
    if len(names) != len(hits):
        raise InputError(f"There are {len(hits)} labels and {len(names)} names; pass one name per label.")
    counts = ClassCounts(hits=hits, labels=true_counts, predictions=prediction_counts)
    scores = zip(*(divide_or(*formula(counts)).tolist() for formula in (PRECISION, RECALL, F1)), strict=True)
    return tuple(
        LabelScore(label=name, precision=p, recall=r, f1=f, rows=int(true_count), predicted=int(prediction_count))
        for name, (p, r, f), true_count, prediction_count in zip(
            names, scores, true_counts, prediction_counts, strict=True
        )
    )


def _average_classes(
    labels: ArrayLike, predictions: ArrayLike, average: str, positive: int, formula: Formula
) -> WeightedMetric:
    """Average the scores of all classes."""
    is_multilabel = check_numbers(labels, "labels").ndim == 2
    if average not in AVERAGES:
        raise InputError(f"average must be one of {', '.join(AVERAGES)}, got {average!r}.")
    if average == ("binary" if is_multilabel else "samples"):
        supported = "class ids" if is_multilabel else "tables of 0 and 1 of shape (rows, labels)"
        raise InputError(f"average={average!r} supports only {supported}.")
    check_pair = _check_table_pair if is_multilabel else _check_class_pair
    true, predicted = check_pair(labels, predictions)
    if average == "samples":
        row_counts = ClassCounts(hits=(true & predicted).sum(1), labels=true.sum(1), predictions=predicted.sum(1))
        return weighted_mean(divide_or(*formula(row_counts)))
    if average == "binary":
        if max(true.max(), predicted.max(), positive) > 1 or positive < 0:
            raise InputError("average='binary' supports only the classes 0 and 1; use macro, micro or weighted.")
        count = _build_table_counter((true == positive)[:, None], (predicted == positive)[:, None])
    else:
        count = _build_table_counter(true, predicted) if is_multilabel else _build_class_counter(true, predicted)

    def values(weights: Array) -> Array:
        counts = count(weights)
        numerators, denominators = formula(counts)
        if average == "micro":
            return divide_or(numerators.sum(0), denominators.sum(0))
        scores = divide_or(numerators, denominators)
        if average == "weighted":
            return divide_or((scores * counts.labels).sum(0), counts.labels.sum(0))
        # a class that occurs in neither labels nor predictions has no score; a label column always has one
        is_averaged = (
            np.ones_like(scores) if scores.shape[0] == 1 or is_multilabel else counts.labels + counts.predictions > 0
        )
        return divide_or(scores.sum(0), is_averaged.sum(0))

    return WeightedMetric(rows=len(true), values=values)


def _build_class_counter(true: Array, predicted: Array) -> Callable[[Array], ClassCounts]:
    """Build a function from row weights to counts by class, for the classes that occur."""
    classes, codes = np.unique(np.concatenate([true, predicted]), return_inverse=True)
    true, predicted = codes[: len(true)], codes[len(true) :]
    correct = np.flatnonzero(true == predicted)
    sum_hits, sum_labels, sum_predictions = (
        build_group_sum(class_codes, len(classes)) for class_codes in (true[correct], true, predicted)
    )
    return lambda weights: ClassCounts(
        hits=sum_hits(weights.take(correct, 0)), labels=sum_labels(weights), predictions=sum_predictions(weights)
    )


def _build_table_counter(true: Array, predicted: Array) -> Callable[[Array], ClassCounts]:
    """Build a function from row weights to counts by label column."""
    indicators = (
        np.stack([true & predicted, true, predicted]).transpose(0, 2, 1).astype(np.float64, order="C")
    )  # (3, labels, rows)

    def count(weights: Array) -> ClassCounts:
        hits, labels, predictions = weighted_sums(indicators, weights)
        return ClassCounts(hits=hits, labels=labels, predictions=predictions)

    return count


def _check_class_pair(labels: ArrayLike, predictions: ArrayLike, n: int | None = None) -> tuple[Array, Array]:
    true, predicted = (
        check_class_ids(labels, "labels", n_classes=n),
        check_class_ids(predictions, "predictions", n_classes=n),
    )
    check_same_rows(labels=true, predictions=predicted)
    return true, predicted


def _check_table_pair(labels: ArrayLike, predictions: ArrayLike) -> tuple[Array, Array]:
    true, predicted = check_label_table(labels, "labels"), check_label_table(predictions, "predictions")
    check_same_shape(labels=true, predictions=predicted)
    return true, predicted
