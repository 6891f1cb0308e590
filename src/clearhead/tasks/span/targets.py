"""Training targets of the span task: row weights, strata for splits, and answers that cannot be found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.data.table import TokenTable
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.span.rows import SpanAnnotations

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def weight_rows(data: PackedDataset) -> Array:
    """Weight rows by their number of windows, so that all windows count equally."""
    return data.row_windows.astype(float)


def stratify(targets: Array, space: LabelSpace) -> tuple[Array, str]:
    """Stratify by whether there is an answer."""
    import numpy as np

    return np.array([int(bool(truth.answers)) for truth in targets]), "classes"


def find_unlearnable(table: TokenTable) -> tuple[str, Array]:
    """Find questions whose answer does not fit into any window or exceeds the maximum length."""
    import numpy as np

    annotations: SpanAnnotations = table.annotations
    assert annotations.targets is not None
    first, last = annotations.targets.T
    is_found = np.zeros(len(table), np.bool_)
    is_found[table.window_rows[(last > 0) & (last - first < annotations.max_answer)]] = True
    has_answer = np.array([bool(truth.answers) for truth in table.labels])
    problem = "an answer that is longer than a window or than max_answer and cannot be found"
    return problem, np.flatnonzero(has_answer & ~is_found)
