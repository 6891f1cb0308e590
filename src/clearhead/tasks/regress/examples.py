"""Which rows with numbers an error analysis shows: the largest errors, and those far beyond what is usual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.examples import (
    MAX_SUSPICIOUS,
    MAX_WORST,
    OUTLIER_DEVIATIONS,
    RowSelection,
    SelectedRow,
    select_smallest,
)
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def pick_numbers(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> RowSelection:
    """The largest errors, and those that are far beyond what is usual here."""
    import numpy as np

    errors = answers.labels - targets
    size = np.abs(errors)

    def pick(place: int) -> SelectedRow:
        return SelectedRow(
            row=int(numbers[place]),
            truth=f"{targets[place]:.4g}",
            answer=f"{answers.labels[place]:.4g}",
            error=float(errors[place]),
        )

    middle = np.median(errors)
    spread = 1.4826 * float(np.median(np.abs(errors - middle)))  # of a normal distribution, its standard deviation
    odd = np.flatnonzero(np.abs(errors - middle) > OUTLIER_DEVIATIONS * spread) if spread > 0 else np.zeros(0, np.int64)
    every = np.flatnonzero(size > 0)
    return RowSelection(
        worst=tuple(map(pick, select_smallest(every, -size[every], MAX_WORST))),
        suspicious=tuple(map(pick, select_smallest(odd, -size[odd], MAX_SUSPICIOUS))),
        error_count=len(targets),
        suspicious_count=len(odd),
    )
