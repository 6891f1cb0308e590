"""How chosen options are measured, and two models compared on the same questions."""

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


Parts = tuple[Callable[..., float], Any]  # a metric of (rows, scores), and the scores of each row


def right(answers: Answers, targets: Array) -> Array:
    """Whether it is the right one."""
    import numpy as np

    return np.asarray(answers.labels == targets)


def measure(answers: Answers, targets: Array, space: LabelSpace, n: int) -> dict[str, Interval]:
    """The share of questions answered right, and how far the probabilities are off."""
    from clearhead.metrics import accuracy, bootstrap, log_loss

    return {
        "accuracy": bootstrap(accuracy, targets, answers.labels, n=n),
        "log_loss": bootstrap(log_loss, targets, answers.probs, n=n),
    }


def details(answers: Answers, targets: Array, space: LabelSpace) -> MetricDetails:
    """What calibration is measured on."""
    return MetricDetails(probs=answers.probs, truth=targets)


def baseline(data: PackedDataset) -> float:
    """The loss of one who guesses."""
    import numpy as np

    return float(np.log(data.annotations.counts[data.table_rows]).mean())


def floor(data: PackedDataset) -> float:
    """The accuracy of one who guesses."""
    return float((1 / data.annotations.counts[data.table_rows]).mean())


def row_scores(answers: Answers, targets: Array, space: LabelSpace, metric: str) -> Parts:
    """Of each question whether it is right, or the log of the probability of what is."""
    import numpy as np

    own = answers.probs[np.arange(len(targets)), targets]
    made = -np.log(np.maximum(own, 1e-15)) if metric == "log_loss" else answers.labels == targets
    return lambda _, said: float(said.mean()), np.asarray(made, np.float64)
