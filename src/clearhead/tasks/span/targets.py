"""What training must know of questions: how much each counts, how they are split, and answers out of reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.data.table import TokenTable
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.span.rows import SpanAnnotations

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def weights(data: PackedDataset) -> Array:
    """Every window counts alike, so that a row counts by its windows."""
    return data.row_windows.astype(float)


def strata(targets: Array, space: LabelSpace) -> tuple[Array, str]:
    """By whether there is an answer."""
    import numpy as np

    return np.array([int(bool(truth.answers)) for truth in targets]), "classes"


def unread(table: TokenTable) -> tuple[str, Array]:
    """Questions whose answer lies wholly in no window, or has more tokens than are looked for."""
    import numpy as np

    marks: SpanAnnotations = table.annotations
    assert marks.targets is not None
    first, last = marks.targets.T
    found = np.zeros(len(table), np.bool_)
    found[table.window_rows[(last > 0) & (last - first < marks.max_answer)]] = True
    has = np.array([bool(truth.answers) for truth in table.labels])
    what = "an answer that is longer than a window, or than the longest that is looked for: it cannot be found"
    return what, np.flatnonzero(has & ~found)
