"""How labels are measured: one a row, or several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.task import Answers, MetricDetails

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval

    Array = np.ndarray[Any, Any]

MOST_SQUARE = 100  # classes of which a confusion matrix is kept


def right(answers: Answers, targets: Array) -> Array:
    """Whether each row has exactly the labels it should have."""
    import numpy as np

    same = answers.labels == targets
    return np.asarray(same if same.ndim == 1 else same.all(-1))


def measure(answers: Answers, targets: Array, space: LabelSpace, n: int) -> dict[str, Interval]:
    """Every metric of classes, or of several labels a row; with n resamples for the intervals."""
    from clearhead.metrics import measure as measured

    kind = "multilabel" if space.kind == "multilabel" else "classify"
    return measured(kind, targets, answers.labels, answers.probs, classes=len(space), n=n)


def names(space: LabelSpace) -> tuple[str, ...]:
    """The metrics of labels."""
    from clearhead.metrics.measure import BINARY, CLASSIFY, MULTILABEL, PROBS

    if space.kind == "multilabel":
        return (*MULTILABEL, *PROBS)
    return (*CLASSIFY, *(BINARY if len(space) <= 2 else ()), *PROBS)


def details(answers: Answers, targets: Array, space: LabelSpace) -> MetricDetails:
    """Scores by label, the confusion of classes, and what calibration is measured on."""
    from clearhead.metrics import confusion_matrix, label_table

    square = None
    if space.kind == "classes" and len(space) <= MOST_SQUARE:
        square = tuple(
            tuple(int(count) for count in row) for row in confusion_matrix(targets, answers.labels, len(space))
        )
    table = tuple(label_table(targets, answers.labels, space.names))
    return MetricDetails(confusion=square, label_scores=table, probs=answers.probs, truth=targets)


def compared(space: LabelSpace) -> Mapping[str, Callable[..., float]]:
    """What two models are compared by."""
    from clearhead.metrics import accuracy, f1, matthews_corrcoef, subset_accuracy

    if space.kind == "multilabel":
        return {"subset_accuracy": subset_accuracy, "f1_macro": f1}
    return {"accuracy": accuracy, "f1_macro": f1, "matthews": matthews_corrcoef}
