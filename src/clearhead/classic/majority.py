"""The majority baseline, which ignores the text: the minimum that any other method must beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clearhead.classic.targets import check_targets, count_outputs
from clearhead.data.labels import LabelSpace
from clearhead.metrics.checks import Array, ArrayLike

SMOOTHING = 1.0  # added to the count of every class, and of every label's presence and absence


@dataclass(frozen=True, eq=False)
class MajorityModel:
    """The same logits for every row."""

    bias: Array  # (outputs,) float32

    def logits(self, rows: int) -> Array:
        """Logits (rows, outputs), equal for all rows."""
        return np.tile(self.bias, (rows, 1))


def fit_majority(targets: ArrayLike, space: LabelSpace) -> MajorityModel:
    """Fit the log frequency of each class, the log odds of each label, or the mean of the numbers."""
    checked_targets = check_targets(targets, space)
    if space.kind == "number":
        bias = checked_targets.mean(keepdims=True)
    elif space.kind == "multilabel":
        bias = log_odds(checked_targets)
    else:
        counts = np.bincount(checked_targets, minlength=count_outputs(space)) + SMOOTHING
        bias = np.log(counts / counts.sum())
    return MajorityModel(bias.astype(np.float32))


def log_odds(labels: Array) -> Array:
    """Smoothed log odds of each label, from booleans (rows, labels); finite even if all rows agree."""
    positive_counts = labels.sum(0)
    odds: Array = np.log((positive_counts + SMOOTHING) / (len(labels) - positive_counts + SMOOTHING))
    return odds
