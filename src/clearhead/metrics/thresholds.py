"""Where to draw the line: when a probability becomes a label, and when a model had better not answer.

A row passes a threshold when its probability is at least as high. Thresholds lie midway between neighbouring scores, so
that the last digit of a probability, which depends on the machine, decides nothing.
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

# hits, wrong calls, all positives, all negatives (a value per threshold) -> what is to be as large as possible
SCORES: dict[str, Callable[[Array, Array, float, float], Array]] = {
    "f1": lambda hits, wrong, yes, _: divide_or(2 * hits, hits + wrong + yes),
    "accuracy": lambda hits, wrong, yes, no: (hits + no - wrong) / (yes + no),
    "balanced_accuracy": lambda hits, wrong, yes, no: (
        (divide_or(hits, np.array(yes)) + divide_or(no - wrong, np.array(no))) / ((yes > 0) + (no > 0))
    ),
    "matthews": lambda hits, wrong, yes, no: divide_or(
        hits * (no - wrong) - wrong * (yes - hits), np.sqrt(yes * no * (hits + wrong) * (yes + no - hits - wrong))
    ),
}


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """From which probability on a row gets the label, and the metric that this gives on the rows it was chosen on."""

    threshold: float
    value: float


@dataclass(frozen=True, kw_only=True, eq=False)
class CoverageCurve:
    """What a model gives when it answers only where it is sure: one entry per distinct confidence, falling."""

    threshold: Array  # answer where confidence >= threshold
    coverage: Array  # share of rows answered
    accuracy: Array  # share of these that are right
    area: float  # under the curve of risk (1 - accuracy) over coverage: 0 is perfect


@dataclass(frozen=True, kw_only=True)
class AnswerThreshold:
    """A confidence from which on to answer, and what was seen there."""

    threshold: float
    coverage: float
    accuracy: float
    low: float  # Wilson's lower bound of the accuracy
    rows: int


def best_threshold(probs: ArrayLike, labels: ArrayLike, metric: str = "f1") -> Threshold:
    """The threshold in [0, 1] with the best metric for two classes; probs are of class 1, (rows,) or (rows, 2).

    Every threshold that makes a difference is tried. 0.5 is kept unless another is better; of equals the one nearest to
    0.5 is taken, then the lower.
    """
    if metric not in SCORES:
        raise InputError(f"metric must be one of {', '.join(SCORES)}, and it is {metric!r}.")
    sure, true = check_probabilities(probs), check_class_ids(labels, "labels", n=2)
    if sure.ndim == 2 and sure.shape[1] == 2:
        sure = sure[:, 1]
    check_same_rows(probs=check_one_per_row(sure, "probs"), labels=true)
    scores, rows, hits = _cumulative_counts(sure, true == 1)
    positives = float(hits[-1])
    # one candidate per step (all rows down to it get the label), and one for no row at all
    hits, rows = np.concatenate([[0], hits]).astype(np.float64), np.concatenate([[0], rows]).astype(np.float64)
    values = SCORES[metric](hits, rows - hits, positives, len(true) - positives)
    upper, lower = np.concatenate([[1.0], scores]), np.concatenate([scores, [0.0]])
    middle = np.where((lower < 0.5) & (upper >= 0.5), 0.5, _midpoint(lower, upper))
    reachable = np.arange(len(middle)) > 0 if scores[0] >= 1 else np.ones(len(middle), bool)  # 1 always passes
    best = np.flatnonzero(reachable & (values >= values[reachable].max() - 1e-12))
    chosen = best[np.lexsort((middle[best], np.abs(middle[best] - 0.5)))[0]]
    return Threshold(threshold=float(middle[chosen]), value=float(values[chosen]))


def best_thresholds(probs: ArrayLike, labels: ArrayLike, metric: str = "f1") -> tuple[Threshold, ...]:
    """One best threshold per label where a text can have several; a label without any row keeps 0.5."""
    sure, true = check_probabilities(probs), flag_table(labels, "labels")
    check_same_shape(probs=sure, labels=true)
    return tuple(best_threshold(sure[:, place], true[:, place], metric) for place in range(true.shape[1]))


def coverage_curve(confidence: ArrayLike, correct: ArrayLike) -> CoverageCurve:
    """Coverage and accuracy when only the surest rows are answered, for every possible threshold."""
    sure, right = _check_answers(confidence, correct)
    scores, rows, hits = _cumulative_counts(sure, right)
    accuracy = hits / rows
    # the mean over rows of the risk among the rows at least as sure; equal confidences are one step
    area = float((np.diff(rows, prepend=0) * (1 - accuracy)).sum() / len(right))
    return CoverageCurve(threshold=scores, coverage=rows / len(right), accuracy=accuracy, area=area)


def threshold_for(
    confidence: ArrayLike, correct: ArrayLike, *, accuracy: float = 0.95, level: float | None = None
) -> AnswerThreshold | None:
    """The smallest confidence from which on the answered rows are right often enough; None when there is none.

    With `level` (as 0.95) Wilson's lower bound must reach the target, not the share itself: fewer answers, and a
    promise that is more likely kept on new rows.
    """
    if not 0 <= accuracy <= 1:
        raise InputError(f"accuracy must lie between 0 and 1, and it is {accuracy}.")
    if level is not None and not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, as 0.95, and it is {level}.")
    sure, right = _check_answers(confidence, correct)
    scores, rows, hits = _cumulative_counts(sure, right)
    low = wilson_bounds(hits, rows, level or 0.95)[0]
    good = np.flatnonzero((hits / rows if level is None else low) >= accuracy - 1e-12)
    if not len(good):
        return None
    last = int(good[-1])
    floor = min(0.0, float(scores[-1]))
    return AnswerThreshold(
        threshold=float(_midpoint(scores[last + 1], scores[last])) if last + 1 < len(scores) else floor,
        coverage=float(rows[last] / len(right)),
        accuracy=float(hits[last] / rows[last]),
        low=float(low[last]),
        rows=int(rows[last]),
    )


def _check_answers(confidence: ArrayLike, correct: ArrayLike) -> tuple[Array, Array]:
    sure, right = check_reals(confidence, "confidence"), check_one_per_row(check_binary(correct, "correct"), "correct")
    check_same_rows(confidence=sure, correct=right)
    return sure, right


def _cumulative_counts(scores: Array, true: Array) -> tuple[Array, Array, Array]:
    """The distinct scores, falling, with how many rows reach each and how many of those are true."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.flatnonzero(np.concatenate([ranked[1:] != ranked[:-1], [True]]))
    return ranked[last], last + 1, np.cumsum(true[order])[last]


def _midpoint(lower: Array, upper: Array) -> Array:
    """The middle; the upper end where no number lies between, so that the lower never passes."""
    middle = lower + (upper - lower) / 2
    return np.where(middle > lower, middle, upper)
