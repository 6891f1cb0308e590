"""What goes into a runner and what comes out: plain arrays, the same for core and engine."""

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
    """Texts padded to a rectangle; mask is True where a token is real, None when all are."""

    ids: Array  # (batch, length)
    mask: Array | None = None
    segments: Array | None = None
    target_ids: Array | None = None
    target_mask: Array | None = None


@dataclass(kw_only=True)
class Output:
    """What a model says of a batch. Values at masked positions are not promised."""

    hidden: list[Array] = field(default_factory=list)  # layers + 1 of (batch, length, width), embeddings first
    target_hidden: list[Array] | None = None  # the decoder's, in encoder-decoder models
    last: Array | None = None  # the top of `hidden`
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


def pad_rows(rows: Sequence[Sequence[int]], value: int) -> tuple[Array, Array]:
    """Rows of different length as a rectangle and its mask."""
    import numpy as np

    length = max((len(row) for row in rows), default=0)
    ids = np.full((len(rows), length), value, np.int64)
    mask = np.zeros((len(rows), length), np.bool_)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
        mask[place, : len(row)] = True
    return ids, mask


def group_by_budget(lengths: Sequence[int], budget: int) -> Iterator[range]:
    """Runs of sorted lengths whose rectangle stays within a budget of tokens."""
    begin = 0
    for place, length in enumerate(lengths):
        if place > begin and (place + 1 - begin) * length > budget:
            yield range(begin, place)
            begin = place
    if begin < len(lengths):
        yield range(begin, len(lengths))


def check_finite(array: Array) -> None:
    """Refuse what a network with broken weights computes; a layer_norm_eps of zero can do it, too."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        total = float(array.sum(dtype=np.float32))  # one pass at the speed of memory in the usual case
    if not math.isfinite(total) and not np.isfinite(array).all():
        raise TensorError("The model computes NaN or infinity for this text; its weights or its config are broken.")


def as_ids(value: Any, name: str) -> Array:
    """Lists, numpy or torch to an integer array, or a sentence that says what came."""
    import numpy as np

    if hasattr(value, "detach"):  # a torch tensor, without importing torch
        value = value.detach().cpu().numpy()
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"{name} has rows of different length; pad them and give a mask.") from None
    if array.dtype.kind == "f" and array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise InputError(f"{name} must be whole numbers, and it is {array.dtype}.")
    return array.astype(np.int64)
