"""Inputs and outputs of runners: plain arrays, the same for core and engine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError, TensorError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(kw_only=True)
class Batch:
    """Texts padded to the same length; `mask` is True at real tokens (None: no padding)."""

    ids: Array  # (batch, length)
    mask: Array | None = None
    segments: Array | None = None
    target_ids: Array | None = None
    target_mask: Array | None = None


@dataclass(kw_only=True)
class Output:
    """Outputs of a model for a batch. Values at masked positions are undefined."""

    hidden: list[Array] = field(default_factory=list)  # layers + 1 arrays of (batch, length, width), embeddings first
    target_hidden: list[Array] | None = None  # of the decoder, in encoder-decoder models
    last: Array | None = None  # the last element of `hidden`
    pooled: Array | None = None
    logits: Array | None = None
    next_sentence: Array | None = None

    def __repr__(self) -> str:
        parts = [f"hidden={len(self.hidden)} layers"] if self.hidden else []
        for name in ("last", "pooled", "logits", "next_sentence"):
            value = getattr(self, name)
            if value is not None:
                parts.append(f"{name}={tuple(value.shape)}")
        return f"Output({', '.join(parts)})"


def pad_rows(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Array, Array]:
    """Pad rows to the same length; return ids and mask."""
    import numpy as np

    length = max((len(row) for row in rows), default=0)
    ids = np.full((len(rows), length), pad_id, np.int64)
    mask = np.zeros((len(rows), length), np.bool_)
    for row_index, row in enumerate(rows):
        ids[row_index, : len(row)] = row
        mask[row_index, : len(row)] = True
    return ids, mask


def group_by_budget(lengths: Sequence[int], budget: int) -> Iterator[range]:
    """Group sorted lengths into ranges whose padded size stays within a budget of tokens."""
    start = 0
    for index, length in enumerate(lengths):
        if index > start and (index + 1 - start) * length > budget:
            yield range(start, index)
            start = index
    if start < len(lengths):
        yield range(start, len(lengths))


def check_finite(array: Array) -> None:
    """Raise TensorError if an output is not finite, because of broken weights or, for example, layer_norm_eps=0."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        total = float(array.sum(dtype=np.float32))  # a single fast pass in the usual case
    if not math.isfinite(total) and not np.isfinite(array).all():
        raise TensorError("The model computes NaN or infinity for this text; its weights or its config are invalid.")


def to_integer_array(value: Any, name: str) -> Array:
    """Convert a list, NumPy array or tensor to an integer array."""
    import numpy as np

    if hasattr(value, "detach"):  # a torch tensor, without importing torch
        value = value.detach().cpu().numpy()
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"{name} has rows of different lengths; pad them and pass a mask.") from None
    if array.dtype.kind == "f" and array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise InputError(f"{name} must be integers, got {array.dtype}.")
    return array.astype(np.int64)
