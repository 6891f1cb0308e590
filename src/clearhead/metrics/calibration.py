"""Calibration: calibration errors, the reliability table and temperature scaling.

The confidence of a row is the probability of its predicted class. In multi-label data (labels of shape (rows, labels))
every cell is a separate decision, as is every row of binary probabilities (rows,).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import (
    Array,
    ArrayLike,
    check_binary,
    check_class_ids,
    check_finite,
    check_numbers,
    check_same_rows,
    check_same_shape,
)
from clearhead.metrics.probability import check_labels_and_probs
from clearhead.metrics.weights import WeightedMetric, build_group_sum, divide_or, metric

BinSums: TypeAlias = Callable[[Array], Array]  # weights of rows -> sums by bin

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0  # bounds of the fit; separable rows would drive it to 0


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Decisions of similar confidence, with their mean confidence and accuracy; NaN for an empty bin."""

    low: float
    high: float
    rows: int
    confidence: float
    accuracy: float


@metric()
def expected_calibration_error(probs: ArrayLike, labels: ArrayLike, bins: int = 15) -> WeightedMetric:
    """Mean gap between confidence and accuracy over bins of equal width, weighted by their rows."""
    confidence, is_correct, decisions_per_row = _confidence_and_correctness(probs, labels)
    gap_sums, _ = _gap_sums(confidence, is_correct, decisions_per_row, bins)
    n_rows = len(confidence) // decisions_per_row
    return WeightedMetric(
        rows=n_rows,
        values=lambda weights: divide_or(np.abs(gap_sums(weights)).sum(0), decisions_per_row * weights.sum(0), np.nan),
    )


@metric()
def maximum_calibration_error(probs: ArrayLike, labels: ArrayLike, bins: int = 15) -> WeightedMetric:
    """Largest gap between confidence and accuracy of any bin of equal width."""
    confidence, is_correct, decisions_per_row = _confidence_and_correctness(probs, labels)
    gap_sums, decision_sums = _gap_sums(confidence, is_correct, decisions_per_row, bins)
    return WeightedMetric(
        rows=len(confidence) // decisions_per_row,
        values=lambda weights: divide_or(np.abs(gap_sums(weights)), decision_sums(weights)).max(0),
    )


def adaptive_calibration_error(probs: ArrayLike, labels: ArrayLike, bins: int = 15) -> float:
    """Expected calibration error with bins of equal size instead of equal width."""
    table = reliability_table(probs, labels, bins, adaptive=True)
    n_rows = sum(row.rows for row in table)
    return sum(row.rows * abs(row.confidence - row.accuracy) for row in table) / n_rows


def reliability_table(
    probs: ArrayLike, labels: ArrayLike, bins: int = 15, *, adaptive: bool = False
) -> tuple[Bin, ...]:
    """Confidence and accuracy by confidence bin; `adaptive` bins hold about equally many rows and are never empty."""
    confidence, is_correct, _ = _confidence_and_correctness(probs, labels)
    bin_indices = _equal_mass_bins(confidence, bins) if adaptive else _equal_width_bins(confidence, bins)
    table = []
    for bin_index in np.unique(bin_indices) if adaptive else range(bins):
        in_bin = bin_indices == bin_index
        is_filled = bool(in_bin.any())
        table.append(
            Bin(
                low=float(confidence[in_bin].min()) if adaptive else bin_index / bins,
                high=float(confidence[in_bin].max()) if adaptive else (bin_index + 1) / bins,
                rows=int(in_bin.sum()),
                confidence=float(confidence[in_bin].mean()) if is_filled else math.nan,
                accuracy=float(is_correct[in_bin].mean()) if is_filled else math.nan,
            )
        )
    return tuple(table)


def confidences(probs: ArrayLike) -> Array:
    """The probability of each row's predicted class, (rows,)."""
    array = np.asarray(probs, np.float64)
    return np.maximum(array, 1 - array) if array.ndim == 1 else array.max(1)


def fit_temperature(logits: ArrayLike, labels: ArrayLike) -> float:
    """Fit the temperature T from 0.05 to 20 that minimizes the log loss of logits / T.

    Logits are (rows, classes), (rows,) for two classes, or (rows, labels) with labels of the same shape. A value at
    either bound means that the rows do not determine T (all are correct, or the logits carry no signal): use 1 instead.
    """
    scores, true = _check_logits_and_labels(logits, labels)
    if scores.ndim == 1:
        return 1 / _fit_inverse_temperature(scores[:, None] * np.array([0.0, 1.0]), true)
    return 1 / _fit_inverse_temperature(scores, true)


def apply_temperature(logits: ArrayLike, temperature: float, *, multilabel: bool = False) -> Array:
    """Softmax of logits / temperature (rows, classes); the sigmoid for logits (rows,) or if `multilabel`."""
    if not (math.isfinite(temperature) and temperature > 0):
        raise InputError(f"temperature must be above 0, got {temperature}.")
    scores = check_finite(logits, "logits") / temperature
    if multilabel or scores.ndim == 1:
        exponentials = np.exp(np.minimum(scores, 0))  # neither numerator nor denominator can overflow
        probs: Array = exponentials / (exponentials + np.exp(np.minimum(-scores, 0)))
    else:
        exponentials = np.exp(scores - scores.max(-1, keepdims=True))
        probs = exponentials / exponentials.sum(-1, keepdims=True)
    return probs


def _fit_inverse_temperature(scores: Array, true: Array) -> float:
    """Minimize the mean of log sum exp(b z) - b z[true], which is convex in the inverse temperature b."""
    scores = scores - scores.max(1, keepdims=True)
    mean_true_score = scores[np.arange(len(true)), true].mean()

    def slope(inverse: float) -> tuple[float, float]:
        probs = np.exp(inverse * scores)
        probs /= probs.sum(1, keepdims=True)
        mean = (probs * scores).sum(1)
        return float(mean.mean() - mean_true_score), float(((probs * scores**2).sum(1) - mean**2).mean())

    low, high = 1 / MAX_TEMPERATURE, 1 / MIN_TEMPERATURE
    if not scores.any():
        return 1.0  # all logits of a row are equal: temperature has no effect
    if slope(low)[0] >= 0:
        return low
    if slope(high)[0] <= 0:
        return high
    inverse = 1.0
    for _ in range(100):  # Newton's method, with the geometric mean of the bounds if a step leaves them
        gradient, curvature = slope(inverse)
        low, high = (inverse, high) if gradient < 0 else (low, inverse)
        newton = inverse - gradient / curvature if curvature > 0 else 0.0
        proposal = newton if low < newton < high else math.sqrt(low * high)
        if abs(proposal - inverse) < 1e-12 * inverse:
            break
        inverse = proposal
    return inverse


def _check_logits_and_labels(logits: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
    """Check logits (rows, classes) or (decisions,), and the class ids."""
    scores = check_finite(logits, "logits")
    if check_numbers(labels, "labels").ndim == 2:
        flags = check_binary(labels, "labels")
        check_same_shape(labels=flags, logits=scores)
        return scores.ravel(), flags.ravel().astype(np.int64)
    if scores.ndim > 2 or (scores.ndim == 2 and scores.shape[1] < 2):
        raise InputError(f"logits must have shape (rows,) or (rows, 2 or more classes), got {scores.shape}.")
    true = check_class_ids(labels, "labels", n_classes=2 if scores.ndim == 1 else scores.shape[1])
    check_same_rows(labels=true, logits=scores)
    return scores, true


def _confidence_and_correctness(probs: ArrayLike, labels: ArrayLike) -> tuple[Array, Array, int]:
    """Confidence and correctness of every decision, and the number of decisions per row."""
    true, checked_probs = check_labels_and_probs(labels, probs)
    if true.ndim == 2:
        is_correct = (checked_probs >= 0.5) == true
        return np.maximum(checked_probs, 1 - checked_probs).ravel(), is_correct.ravel(), true.shape[1]
    if np.asarray(probs).ndim == 1:
        return checked_probs.max(1), (checked_probs[:, 1] >= 0.5) == true, 1
    return checked_probs.max(1), checked_probs.argmax(1) == true, 1


def _gap_sums(confidence: Array, is_correct: Array, decisions_per_row: int, bins: int) -> tuple[BinSums, BinSums]:
    """Build functions from row weights to sums by bin: of confidence minus correctness, and of decisions."""
    sum_by_bin = build_group_sum(_equal_width_bins(confidence, bins), bins)
    gaps = (confidence - is_correct)[:, None]

    def sum_gaps(weights: Array) -> Array:
        return sum_by_bin(gaps * np.repeat(weights, decisions_per_row, 0))

    def sum_decisions(weights: Array) -> Array:
        return sum_by_bin(np.repeat(weights, decisions_per_row, 0))

    return sum_gaps, sum_decisions


def _equal_width_bins(confidence: Array, bins: int) -> Array:
    """The bin of each confidence; bin b covers (b / bins, (b + 1) / bins]."""
    _check_bins(bins)
    return np.clip(np.searchsorted(np.arange(bins + 1) / bins, confidence, side="left") - 1, 0, bins - 1)


def _equal_mass_bins(confidence: Array, bins: int) -> Array:
    """The bin of each confidence, with about the same number of rows per bin; ties share the bin of their mean rank."""
    _check_bins(bins)
    ranked = np.sort(confidence)
    mid_ranks = (np.searchsorted(ranked, confidence, "left") + np.searchsorted(ranked, confidence, "right")) / 2
    return np.minimum((mid_ranks * bins / len(confidence)).astype(np.int64), bins - 1)


def _check_bins(bins: int) -> None:
    if bins < 1:
        raise InputError(f"bins must be at least 1, got {bins}.")
