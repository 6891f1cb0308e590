"""Error examples of the regress task: largest errors and outliers."""

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


def select_number_errors(
    answers: Answers, targets: Array, space: LabelSpace, row_numbers: Sequence[int] | Array
) -> RowSelection:
    """Select the largest errors and the outliers among them."""
    import numpy as np

    errors = answers.labels - targets
    magnitudes = np.abs(errors)

    def select(index: int) -> SelectedRow:
        return SelectedRow(
            row=int(row_numbers[index]),
            truth=f"{targets[index]:.4g}",
            answer=f"{answers.labels[index]:.4g}",
            error=float(errors[index]),
        )

    median = np.median(errors)
    # estimates the standard deviation of a normal distribution
    spread = 1.4826 * float(np.median(np.abs(errors - median)))
    suspicious = (
        np.flatnonzero(np.abs(errors - median) > OUTLIER_DEVIATIONS * spread) if spread > 0 else np.zeros(0, np.int64)
    )
    inexact = np.flatnonzero(magnitudes > 0)
    return RowSelection(
        worst=tuple(map(select, select_smallest(inexact, -magnitudes[inexact], MAX_WORST))),
        suspicious=tuple(map(select, select_smallest(suspicious, -magnitudes[suspicious], MAX_SUSPICIOUS))),
        error_count=len(targets),
        suspicious_count=len(suspicious),
    )
