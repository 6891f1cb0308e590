"""Does 80 % mean 80 %: calibration error, the reliability table, and one temperature that mends most of it.

A row's confidence is the probability of the class it is given. Where a text can have several labels (labels of shape
(rows, labels)) every cell is a decision of its own, and so is every row of two-class probabilities (rows,).
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

Summed: TypeAlias = Callable[[Array], Array]  # weights of rows -> sums by bin

COLDEST, HOTTEST = 0.05, 20.0  # the range of temperatures; separable rows would drive it to 0


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Decisions of like confidence: how sure they were, and how often they were right; NaN for an empty bin."""

    low: float
    high: float
    rows: int
    confidence: float
    accuracy: float


@metric()
def expected_calibration_error(probs: ArrayLike, labels: ArrayLike, bins: int = 15) -> WeightedMetric:
    """Mean distance of confidence and accuracy over equally wide bins, weighed by their rows."""
    sure, right, per_row = _decisions(probs, labels)
    gaps, _ = _gap_sums(sure, right, per_row, bins)
    rows = len(sure) // per_row
    return WeightedMetric(rows=rows, values=lambda w: divide_or(np.abs(gaps(w)).sum(0), per_row * w.sum(0), np.nan))


@metric()
def maximum_calibration_error(probs: ArrayLike, labels: ArrayLike, bins: int = 15) -> WeightedMetric:
    """The largest distance of confidence and accuracy in any equally wide bin."""
    sure, right, per_row = _decisions(probs, labels)
    gaps, sizes = _gap_sums(sure, right, per_row, bins)
    return WeightedMetric(rows=len(sure) // per_row, values=lambda w: divide_or(np.abs(gaps(w)), sizes(w)).max(0))


def adaptive_calibration_error(probs: ArrayLike, labels: ArrayLike, bins: int = 15) -> float:
    """The expected calibration error with bins of equally many rows instead of equal width."""
    table = reliability_table(probs, labels, bins, adaptive=True)
    rows = sum(each.rows for each in table)
    return sum(each.rows * abs(each.confidence - each.accuracy) for each in table) / rows


def reliability_table(
    probs: ArrayLike, labels: ArrayLike, bins: int = 15, *, adaptive: bool = False
) -> tuple[Bin, ...]:
    """Confidence and accuracy by bin of confidence; `adaptive` bins hold about equally many rows, none is empty."""
    sure, right, _ = _decisions(probs, labels)
    code = _equal_mass_bins(sure, bins) if adaptive else _equal_width_bins(sure, bins)
    made = []
    for place in np.unique(code) if adaptive else range(bins):
        own = code == place
        there = bool(own.any())
        made.append(
            Bin(
                low=float(sure[own].min()) if adaptive else place / bins,
                high=float(sure[own].max()) if adaptive else (place + 1) / bins,
                rows=int(own.sum()),
                confidence=float(sure[own].mean()) if there else math.nan,
                accuracy=float(right[own].mean()) if there else math.nan,
            )
        )
    return tuple(made)


def confidences(probs: ArrayLike) -> Array:
    """How sure each row is of its class: the largest probability, (rows,)."""
    sure = np.asarray(probs, np.float64)
    return np.maximum(sure, 1 - sure) if sure.ndim == 1 else sure.max(1)


def fit_temperature(logits: ArrayLike, labels: ArrayLike) -> float:
    """The temperature T from 0.05 to 20 whose logits / T give the labels the smallest log loss.

    Logits are (rows, classes), (rows,) for two classes, or (rows, labels) beside labels of the same shape. A value at
    either end says that the rows cannot tell (all are right, or none of it is signal): prefer 1 then.
    """
    scores, true = _logits_and_truth(logits, labels)
    if scores.ndim == 1:
        return 1 / _fit_inverse_temperature(scores[:, None] * np.array([0.0, 1.0]), true)
    return 1 / _fit_inverse_temperature(scores, true)


def apply_temperature(logits: ArrayLike, temperature: float, *, multilabel: bool = False) -> Array:
    """Probabilities from logits / temperature: softmax of (rows, classes); sigmoid of (rows,) or when `multilabel`."""
    if not (math.isfinite(temperature) and temperature > 0):
        raise InputError(f"temperature must be above 0, and it is {temperature}.")
    scores = check_finite(logits, "logits") / temperature
    if multilabel or scores.ndim == 1:
        parts = np.exp(np.minimum(scores, 0))  # neither side of the fraction can overflow
        made: Array = parts / (parts + np.exp(np.minimum(-scores, 0)))
    else:
        parts = np.exp(scores - scores.max(-1, keepdims=True))
        made = parts / parts.sum(-1, keepdims=True)
    return made


def _fit_inverse_temperature(scores: Array, true: Array) -> float:
    """The inverse temperature b with the least mean of log sum exp(b z) - b z[true], which is convex in b."""
    scores = scores - scores.max(1, keepdims=True)
    aim = scores[np.arange(len(true)), true].mean()

    def slope(b: float) -> tuple[float, float]:
        probs = np.exp(b * scores)
        probs /= probs.sum(1, keepdims=True)
        mean = (probs * scores).sum(1)
        return float(mean.mean() - aim), float(((probs * scores**2).sum(1) - mean**2).mean())

    low, high = 1 / HOTTEST, 1 / COLDEST
    if not scores.any():
        return 1.0  # all logits of a row are equal: no temperature changes anything
    if slope(low)[0] >= 0:
        return low
    if slope(high)[0] <= 0:
        return high
    b = 1.0
    for _ in range(100):  # Newton's step where it stays between the ends, their geometric mean where it does not
        first, second = slope(b)
        low, high = (b, high) if first < 0 else (low, b)
        step = b - first / second if second > 0 else 0.0
        new = step if low < step < high else math.sqrt(low * high)
        if abs(new - b) < 1e-12 * b:
            break
        b = new
    return b


def _logits_and_truth(logits: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
    """Logits (rows, classes) or (decisions,), and the class numbers."""
    scores = check_finite(logits, "logits")
    if check_numbers(labels, "labels").ndim == 2:
        cells = check_binary(labels, "labels")
        check_same_shape(labels=cells, logits=scores)
        return scores.ravel(), cells.ravel().astype(np.int64)
    if scores.ndim > 2 or (scores.ndim == 2 and scores.shape[1] < 2):
        raise InputError(f"logits must be (rows,) or (rows, 2 or more classes), and its shape is {scores.shape}.")
    true = check_class_ids(labels, "labels", n=2 if scores.ndim == 1 else scores.shape[1])
    check_same_rows(labels=true, logits=scores)
    return scores, true


def _decisions(probs: ArrayLike, labels: ArrayLike) -> tuple[Array, Array, int]:
    """Confidence of every decision, whether it is right, and how many decisions a row has."""
    true, sure = check_labels_and_probs(labels, probs)
    if true.ndim == 2:
        right = (sure >= 0.5) == true
        return np.maximum(sure, 1 - sure).ravel(), right.ravel(), true.shape[1]
    if np.asarray(probs).ndim == 1:
        return sure.max(1), (sure[:, 1] >= 0.5) == true, 1
    return sure.max(1), sure.argmax(1) == true, 1


def _gap_sums(sure: Array, right: Array, per_row: int, bins: int) -> tuple[Summed, Summed]:
    """Sums by bin, from weights of rows: confidence less accuracy, and decisions."""
    sums = build_group_sum(_equal_width_bins(sure, bins), bins)
    gap = (sure - right)[:, None]
    return lambda w: sums(gap * np.repeat(w, per_row, 0)), lambda w: sums(np.repeat(w, per_row, 0))


def _equal_width_bins(sure: Array, bins: int) -> Array:
    """Bin b holds confidences above b / bins, up to (b + 1) / bins."""
    _check_bins(bins)
    return np.clip(np.searchsorted(np.arange(bins + 1) / bins, sure, side="left") - 1, 0, bins - 1)


def _equal_mass_bins(sure: Array, bins: int) -> Array:
    """Bins of about equally many rows; equal confidences stay together, at the place of their middle."""
    _check_bins(bins)
    ranked = np.sort(sure)
    middle = (np.searchsorted(ranked, sure, "left") + np.searchsorted(ranked, sure, "right")) / 2
    return np.minimum((middle * bins / len(sure)).astype(np.int64), bins - 1)


def _check_bins(bins: int) -> None:
    if bins < 1:
        raise InputError(f"bins must be at least 1, and it is {bins}.")
