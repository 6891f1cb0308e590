"""Groups of rows that the engine runs together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
MAX_TOKENS = 256  # tokens per call: a long text runs in its own call


def group_by_length(lengths: Array, max_rows: int, max_tokens: int | None = MAX_TOKENS) -> Iterator[Array]:
    """Group rows of equal length, longest first, so that no worker ends with a long row."""
    order = np.argsort(-lengths, kind="stable")
    start = 0
    for index in range(1, len(order) + 1):
        length = lengths[order[start]]
        rows_that_fit = max_rows if max_tokens is None else max_tokens // max(int(length), 1)
        group_size = max(1, min(max_rows, rows_that_fit))
        if index == len(order) or lengths[order[index]] != length or index - start == group_size:
            yield order[start:index]
            start = index


def is_right_padded(mask: Array | None) -> bool:
    """Whether padding is only at the ends of rows, and each row has a token."""
    if mask is None:
        return True
    return bool((mask[:, :-1] >= mask[:, 1:]).all()) and bool(mask[:, 0].all())
