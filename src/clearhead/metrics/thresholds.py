"""Decision thresholds: when a probability becomes a label, and when a model should abstain.

A row passes a threshold if its probability is at least as high. Thresholds are midpoints between neighboring scores, so
that the last digits of a probability, which depend on the machine, cannot change a decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import (
    Array,
    ArrayLike,
    check_binary,
    check_class_ids,
    check_one_per_row,
    check_probabilities,
    check_reals,
    check_same_rows,
    check_same_shape,
)
from clearhead.metrics.checks import check_label_table as flag_table
from clearhead.metrics.intervals import wilson_bounds
from clearhead.metrics.weights import divide_or

# true and false positives (one value per threshold), positives, negatives -> score to maximize
SCORES: dict[str, Callable[[Array, Array, float, float], Array]] = {
    "f1": lambda tp, fp, positives, _: divide_or(2 * tp, tp + fp + positives),
    "accuracy": lambda tp, fp, positives, negatives: (tp + negatives - fp) / (positives + negatives),
    "balanced_accuracy": lambda tp, fp, positives, negatives: (
        (divide_or(tp, np.array(positives)) + divide_or(negatives - fp, np.array(negatives)))
        / ((positives > 0) + (negatives > 0))
    ),
    "matthews": lambda tp, fp, positives, negatives: divide_or(
        tp * (negatives - fp) - fp * (positives - tp),
        np.sqrt(positives * negatives * (tp + fp) * (positives + negatives - tp - fp)),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """The lowest probability that gets the label, and the metric on the rows on which it was chosen."""

    threshold: float
    value: float


@dataclass(frozen=True, kw_only=True, eq=False)
class CoverageCurve:
    """Accuracy and coverage if only confident rows are answered; one entry per distinct confidence, descending."""

    threshold: Array  # answer where confidence >= threshold
    coverage: Array  # fraction of rows answered
    accuracy: Array  # fraction of the answered rows that are correct
    area: float  # area under the risk-coverage curve (risk = 1 - accuracy); 0 is perfect


@dataclass(frozen=True, kw_only=True)
class AnswerThreshold:
    """The lowest confidence at which to answer, and the coverage and accuracy that result."""

    threshold: float
    coverage: float
    accuracy: float
    low: float  # Wilson lower bound of the accuracy
    rows: int


def best_threshold(probs: ArrayLike, labels: ArrayLike, metric: str = "f1") -> Threshold:
    """Find the threshold in [0, 1] with the best metric for two classes; probs are (rows,) of class 1, or (rows, 2).

    Every distinct threshold is evaluated. 0.5 is kept unless another is better; ties go to the one closest to 0.5, then
    to the lower one.
    """
    if metric not in SCORES:
        raise InputError(f"metric must be one of {', '.join(SCORES)}, got {metric!r}.")
    positive_probs, class_ids = check_probabilities(probs), check_class_ids(labels, "labels", n_classes=2)
    if positive_probs.ndim == 2 and positive_probs.shape[1] == 2:
        positive_probs = positive_probs[:, 1]
    check_same_rows(probs=check_one_per_row(positive_probs, "probs"), labels=class_ids)
    scores, rows, hits = _cumulative_counts(positive_probs, class_ids == 1)
    positives = float(hits[-1])
    # one candidate per distinct score (all rows from it upward get the label), and one for no row
    hits, rows = np.concatenate([[0], hits]).astype(np.float64), np.concatenate([[0], rows]).astype(np.float64)
    values = SCORES[metric](hits, rows - hits, positives, len(class_ids) - positives)
    upper, lower = np.concatenate([[1.0], scores]), np.concatenate([scores, [0.0]])
    thresholds = np.where((lower < 0.5) & (upper >= 0.5), 0.5, _midpoint(lower, upper))
    is_reachable = np.ones(len(thresholds), bool)
    is_reachable[0] = scores[0] < 1  # a probability of 1 passes every threshold
    best = np.flatnonzero(is_reachable & (values >= values[is_reachable].max() - 1e-12))
    best_index = best[np.lexsort((thresholds[best], np.abs(thresholds[best] - 0.5)))[0]]
    return Threshold(threshold=float(thresholds[best_index]), value=float(values[best_index]))


def best_thresholds(probs: ArrayLike, labels: ArrayLike, metric: str = "f1") -> tuple[Threshold, ...]:
    """Find the best threshold of each label of multi-label data; a label without rows keeps 0.5."""
    checked_probs, flags = check_probabilities(probs), flag_table(labels, "labels")
    check_same_shape(probs=checked_probs, labels=flags)
    return tuple(best_threshold(checked_probs[:, column], flags[:, column], metric) for column in range(flags.shape[1]))


def coverage_curve(confidence: ArrayLike, correct: ArrayLike) -> CoverageCurve:
    """Compute coverage and accuracy at every possible confidence threshold."""
    checked_confidence, is_correct = _check_answers(confidence, correct)
    scores, rows, hits = _cumulative_counts(checked_confidence, is_correct)
    accuracy = hits / rows
    # the mean over rows of the risk among the rows that are at least as confident; ties are one step
    area = float((np.diff(rows, prepend=0) * (1 - accuracy)).sum() / len(is_correct))
    return CoverageCurve(threshold=scores, coverage=rows / len(is_correct), accuracy=accuracy, area=area)


def threshold_for(
    confidence: ArrayLike, correct: ArrayLike, *, accuracy: float = 0.95, level: float | None = None
) -> AnswerThreshold | None:
    """Find the lowest confidence at which the answered rows reach the target accuracy; None if there is none.

    With `level` (such as 0.95), the Wilson lower bound of the accuracy must reach the target: fewer rows are answered,
    and new rows are more likely to reach the target, too.
    """
    if not 0 <= accuracy <= 1:
        raise InputError(f"accuracy must be between 0 and 1, got {accuracy}.")
    if level is not None and not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, such as 0.95, got {level}.")
    checked_confidence, is_correct = _check_answers(confidence, correct)
    scores, rows, hits = _cumulative_counts(checked_confidence, is_correct)
    lower_bounds = wilson_bounds(hits, rows, level or 0.95)[0]
    qualifying = np.flatnonzero((hits / rows if level is None else lower_bounds) >= accuracy - 1e-12)
    if not len(qualifying):
        return None
    last = int(qualifying[-1])
    lowest = min(0.0, float(scores[-1]))
    return AnswerThreshold(
        threshold=float(_midpoint(scores[last + 1], scores[last])) if last + 1 < len(scores) else lowest,
        coverage=float(rows[last] / len(is_correct)),
        accuracy=float(hits[last] / rows[last]),
        low=float(lower_bounds[last]),
        rows=int(rows[last]),
    )


def _check_answers(confidence: ArrayLike, correct: ArrayLike) -> tuple[Array, Array]:
    checked_confidence, is_correct = (
        check_reals(confidence, "confidence"),
        check_one_per_row(check_binary(correct, "correct"), "correct"),
    )
    check_same_rows(confidence=checked_confidence, correct=is_correct)
    return checked_confidence, is_correct


def _cumulative_counts(scores: Array, is_positive: Array) -> tuple[Array, Array, Array]:
    """The distinct scores in descending order, with the count of rows and of positive rows that reach each."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    step_ends = np.flatnonzero(np.concatenate([ranked[1:] != ranked[:-1], [True]]))
    return ranked[step_ends], step_ends + 1, np.cumsum(is_positive[order])[step_ends]


def _midpoint(lower: Array, upper: Array) -> Array:
    """The midpoint, or the upper end if there is no number in between, so that the lower end never passes."""
    middle = lower + (upper - lower) / 2
    return np.where(middle > lower, middle, upper)
