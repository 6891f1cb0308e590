"""Metrics of the classify task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.task import Answers, MetricDetails

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval

    Array = np.ndarray[Any, Any]

MAX_CONFUSION_LABELS = 100  # largest stored confusion matrix


def is_correct(answers: Answers, targets: Array) -> Array:
    """Whether the predicted labels equal the true ones exactly."""
    import numpy as np

    is_equal = answers.labels == targets
    return np.asarray(is_equal if is_equal.ndim == 1 else is_equal.all(-1))


def measure(answers: Answers, targets: Array, space: LabelSpace, resamples: int) -> dict[str, Interval]:
    """All metrics of single-label or multilabel data; `resamples` for the intervals."""
    from clearhead.metrics import measure as measure_metrics

    kind = "multilabel" if space.kind == "multilabel" else "classify"
    return measure_metrics(kind, targets, answers.labels, answers.probs, classes=len(space), n=resamples)


def list_metrics(space: LabelSpace) -> tuple[str, ...]:
    """The names of the metrics."""
    from clearhead.metrics.measure import BINARY, CLASSIFY, MULTILABEL, PROBS

    if space.kind == "multilabel":
        return (*MULTILABEL, *PROBS)
    return (*CLASSIFY, *(BINARY if len(space) <= 2 else ()), *PROBS)


def compute_details(answers: Answers, targets: Array, space: LabelSpace) -> MetricDetails:
    """Scores per label, confusion matrix, and probabilities for measuring calibration."""
    from clearhead.metrics import confusion_matrix, label_table

    confusion = None
    if space.kind == "classes" and len(space) <= MAX_CONFUSION_LABELS:
        confusion = tuple(
            tuple(int(count) for count in row) for row in confusion_matrix(targets, answers.labels, len(space))
        )
    label_scores = tuple(label_table(targets, answers.labels, space.names))
    return MetricDetails(confusion=confusion, label_scores=label_scores, probs=answers.probs, truth=targets)


def list_paired_metrics(space: LabelSpace) -> Mapping[str, Callable[..., float]]:
    """The metrics of paired comparisons."""
    from clearhead.metrics import accuracy, f1, matthews_corrcoef, subset_accuracy

    if space.kind == "multilabel":
        return {"subset_accuracy": subset_accuracy, "f1_macro": f1}
    return {"accuracy": accuracy, "f1_macro": f1, "matthews": matthews_corrcoef}
