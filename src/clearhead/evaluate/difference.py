"""The difference between two methods on the same rows: paired, with its interval, and the margin that is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.metrics import paired_test
from clearhead.metrics.measure import BINARY, CLASSIFY, MULTILABEL, PROBS, REGRESS
from clearhead.tasks.task import Answers, Task

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The main metric of a rung minus that of the best, on the same rows."""

    difference: float | None  # None: it is not defined
    low: float | None  # of its 95 % interval
    high: float | None
    p: float | None  # the chance of so much by luck alone


RESAMPLES = 2000
MARGIN = 0.01  # of metrics from 0 to 1, and of log loss: there 1 % of the probability of the right label
METRIC_MARGINS: Mapping[str, float] = {
    "matthews": 0.02,
    "pearson": 0.02,
    "spearman": 0.02,
}  # from -1 to 1, twice as far
RULE_OF_THREE = 3  # rows on which two methods never differ still allow, at 95 %, a difference on 3 in so many
METRICS: Mapping[str, Callable[..., float]] = {**PROBS, **REGRESS, **MULTILABEL, **BINARY, **CLASSIFY}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What the rungs are compared by, on which rows, and how much worse a cheaper one may be."""

    task: Task
    space: LabelSpace
    metric: str
    part: str
    targets: Any
    margin: float | None = None  # None: that of the metric

    @property
    def allowed_margin(self) -> float:
        """The margin, in units of the metric."""
        return default_margin(self.metric, self.targets) if self.margin is None else self.margin

    @property
    def resolution(self) -> float:
        """A difference that so few rows cannot exclude, however alike the answers are."""
        scale = default_margin(self.metric, self.targets) / MARGIN
        return scale * RULE_OF_THREE / max(len(self.targets), 1)


def default_margin(metric: str, targets: Any) -> float:
    """How much worse a cheaper method may be; errors are in units of the labels: 1 % of those of the best constant."""
    if metric not in ("mse", "mae"):
        return METRIC_MARGINS.get(metric, MARGIN)
    import numpy as np

    labels = np.asarray(targets, dtype=float)
    errors = (labels - labels.mean()) ** 2 if metric == "mse" else np.abs(labels - np.median(labels))
    return MARGIN * float(errors.mean())


def measure_difference(mine: Answers, best: Answers, asked: Comparison) -> Difference:
    """metric(mine) - metric(best) on the same rows, with its paired interval."""
    if asked.task.metrics.row_scores is not None:
        import numpy as np

        scores = asked.task.metrics.row_scores
        (metric, a), (_, b) = (scores(one, asked.targets, asked.space, asked.metric) for one in (mine, best))
        found = paired_test(metric, np.zeros(len(a)), a, b, n=RESAMPLES)
    else:
        a, b = (one.probs if asked.metric in PROBS else one.labels for one in (mine, best))
        found = paired_test(METRICS[asked.metric], asked.targets, a, b, n=RESAMPLES)
    values = (found.difference, found.low, found.high, found.p)
    return Difference(**dict(zip(("difference", "low", "high", "p"), map(_none_if_undefined, values), strict=True)))


def _none_if_undefined(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
