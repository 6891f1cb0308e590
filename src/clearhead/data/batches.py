"""Batches of rows of similar length, each a pure function of seed, epoch and step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clearhead.data.split import splitmix64
from clearhead.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

BUCKET_BATCHES = 100  # batches that are sorted by length together: little padding, and still a good shuffle


def token_batches(
    lengths: Any,
    *,
    budget_tokens: int | None = None,
    rows: int | None = None,
    seed: int = 0,
    epoch: int = 0,
    max_rows: int | None = None,
    shuffle: bool = True,
    bucket: int = BUCKET_BATCHES,
) -> list[Array]:
    """Every row once: batches of `rows` rows, or as many as fit `budget_tokens` with their padding."""
    # Shuffled rows are sorted within `bucket` batches' worth of them, and the batches are shuffled again; bucket=1
    # gives plain random batches. Without shuffle the longest come first. A row beyond the budget is a batch by itself.
    import numpy as np

    sizes = np.asarray(lengths, np.int64).reshape(-1)
    _check_arguments(sizes, budget_tokens, rows, max_rows, bucket)
    if len(sizes) == 0:
        return []
    if not shuffle:
        return _slice_batches(np.argsort(-sizes, kind="stable"), sizes, budget_tokens, rows, max_rows)
    keys = splitmix64(np.arange(len(sizes), dtype=np.uint64), _derive_seed(seed, epoch, 0))
    order = np.argsort(keys, kind="stable")
    width = rows or max(int(budget_tokens or 0) // max(int(sizes.mean()), 1), 1)
    width = min(width, max_rows or width)
    pool = np.arange(len(sizes)) // (bucket * width)
    if bucket > 1:
        order = order[np.lexsort((-sizes[order], pool))]  # stable, so rows of one length stay shuffled
    batches: list[Array] = []
    for start in range(0, len(sizes), bucket * width):
        batches += _slice_batches(order[start : start + bucket * width], sizes, budget_tokens, rows, max_rows)
    turns = np.argsort(
        splitmix64(np.arange(len(batches), dtype=np.uint64), _derive_seed(seed, epoch, 1)), kind="stable"
    )
    return [batches[turn] for turn in turns]


def _slice_batches(order: Array, sizes: Array, budget: int | None, rows: int | None, most: int | None) -> list[Array]:
    """Cut rows into batches; without order among them, the longest of the next rows decides."""
    if rows is not None:
        step = min(rows, most or rows)
        return [order[start : start + step] for start in range(0, len(order), step)]
    import numpy as np

    ordered = sizes[order]
    falling = bool((ordered[1:] <= ordered[:-1]).all())
    limit = budget or 1
    found = []
    start = 0
    while start < len(order):
        count = min(max(limit // max(int(ordered[start]), 1), 1), most or len(order))
        if not falling:
            longest = np.maximum.accumulate(ordered[start : start + count])
            count = max(int(np.searchsorted(longest * np.arange(1, len(longest) + 1), limit, side="right")), 1)
        found.append(order[start : start + count])
        start += count
    return found


def _derive_seed(seed: int, epoch: int, use: int) -> int:
    return int(splitmix64([int(splitmix64([seed % 2**64], 1)[0]) ^ (epoch * 2 + use)], 2)[0])


def _check_arguments(sizes: Array, budget: int | None, rows: int | None, most: int | None, bucket: int) -> None:
    if (budget is None) == (rows is None):
        raise InputError("say either budget_tokens or rows for the size of a batch.")
    for name, value in (("budget_tokens", budget), ("rows", rows), ("max_rows", most), ("bucket", bucket)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise InputError(f"{name}={value!r}: expected a whole number of at least 1.")
    if len(sizes) and int(sizes.min()) < 0:
        raise InputError("lengths cannot be below 0.")
