"""Metrics of the choice task, and paired comparison of two models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.task import Answers, MetricDetails

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval

    Array = np.ndarray[Any, Any]


RowScorer = tuple[Callable[..., float], Any]  # a metric of (rows, scores), and the scores of each row


def is_correct(answers: Answers, targets: Array) -> Array:
    """Whether the chosen option is correct."""
    import numpy as np

    return np.asarray(answers.labels == targets)


def measure(answers: Answers, targets: Array, space: LabelSpace, resamples: int) -> dict[str, Interval]:
    """Accuracy and log loss."""
    from clearhead.metrics import accuracy, bootstrap, log_loss

    return {
        "accuracy": bootstrap(accuracy, targets, answers.labels, n=resamples),
        "log_loss": bootstrap(log_loss, targets, answers.probs, n=resamples),
    }


def compute_details(answers: Answers, targets: Array, space: LabelSpace) -> MetricDetails:
    """Probabilities and targets, for measuring calibration."""
    return MetricDetails(probs=answers.probs, truth=targets)


def compute_chance_loss(data: PackedDataset) -> float:
    """The log loss of random guessing."""
    import numpy as np

    return float(np.log(data.annotations.counts[data.table_rows]).mean())


def compute_chance_score(data: PackedDataset) -> float:
    """The accuracy of random guessing."""
    return float((1 / data.annotations.counts[data.table_rows]).mean())


def score_rows(answers: Answers, targets: Array, space: LabelSpace, metric: str) -> RowScorer:
    """Score each question: correctness, or negative log probability of the correct option."""
    import numpy as np

    true_probs = answers.probs[np.arange(len(targets)), targets]
    scores = -np.log(np.maximum(true_probs, 1e-15)) if metric == "log_loss" else answers.labels == targets
    return lambda _, row_scores: float(row_scores.mean()), np.asarray(scores, np.float64)
