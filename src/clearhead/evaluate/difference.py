"""Paired comparison of two methods on the same rows, and the margin within which a cheaper method is as good."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clearhead.data.labels import LabelSpace
from clearhead.metrics import paired_test
from clearhead.metrics.measure import BINARY, CLASSIFY, MULTILABEL, PROBS, REGRESS
from clearhead.tasks.task import Answers, Task


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference of a metric between two methods on the same rows."""

    difference: float | None  # None if undefined
    low: float | None  # of the 95 % confidence interval
    high: float | None
    p: float | None  # p-value


RESAMPLES = 2000
MARGIN = 0.01  # of metrics between 0 and 1, and of log loss, where it is 1 % of the probability of the correct label
METRIC_MARGINS: Mapping[str, float] = {"matthews": 0.02, "pearson": 0.02, "spearman": 0.02}  # metrics from -1 to 1
RULE_OF_THREE = 3  # no difference on n rows still allows, with 95 % confidence, one on 3 / n of all rows
METRICS: Mapping[str, Callable[..., float]] = {**PROBS, **REGRESS, **MULTILABEL, **BINARY, **CLASSIFY}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How methods are compared: metric, rows, and how much worse a cheaper method may be."""

    task: Task
    space: LabelSpace
    metric: str
    part: str
    targets: Any
    margin: float | None = None  # None: default_margin

    @property
    def allowed_margin(self) -> float:
        """The margin, in units of the metric."""
        return default_margin(self.metric, self.targets) if self.margin is None else self.margin

    @property
    def resolution(self) -> float:
        """The smallest difference that the number of rows can exclude, even if all answers are equal."""
        scale = default_margin(self.metric, self.targets) / MARGIN
        return scale * RULE_OF_THREE / max(len(self.targets), 1)


def default_margin(metric: str, targets: Any) -> float:
    """Return the margin of a metric; for mse and mae, 1 % of the error of the best constant prediction."""
    if metric not in ("mse", "mae"):
        return METRIC_MARGINS.get(metric, MARGIN)
    import numpy as np

    labels = np.asarray(targets, dtype=float)
    errors = (labels - labels.mean()) ** 2 if metric == "mse" else np.abs(labels - np.median(labels))
    return MARGIN * float(errors.mean())


def measure_difference(answers: Answers, reference: Answers, comparison: Comparison) -> Difference:
    """Measure metric(answers) - metric(reference) on the same rows, with a paired confidence interval."""
    if comparison.task.metrics.row_scores is not None:
        import numpy as np

        scores = comparison.task.metrics.row_scores
        (metric, scores_a), (_, scores_b) = (
            scores(model_answers, comparison.targets, comparison.space, comparison.metric)
            for model_answers in (answers, reference)
        )
        test = paired_test(metric, np.zeros(len(scores_a)), scores_a, scores_b, n=RESAMPLES)
    else:
        scores_a, scores_b = (
            model_answers.probs if comparison.metric in PROBS else model_answers.labels
            for model_answers in (answers, reference)
        )
        test = paired_test(METRICS[comparison.metric], comparison.targets, scores_a, scores_b, n=RESAMPLES)
    values = (test.difference, test.low, test.high, test.p)
    return Difference(**dict(zip(("difference", "low", "high", "p"), map(_none_if_undefined, values), strict=True)))


def _none_if_undefined(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
