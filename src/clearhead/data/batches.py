"""Batches of rows of similar length, each a pure function of seed, epoch and step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clearhead.data.split import splitmix64
from clearhead.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

BUCKET_BATCHES = 100  # batches that are sorted by length together: little padding, but still well shuffled


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
    """Group row indices into batches of `rows` rows, or of at most `budget_tokens` tokens including padding."""
    # Shuffled rows are sorted by length within pools of `bucket` batches, and the batches are shuffled again; bucket=1
    # gives random batches. Without shuffle, the longest rows come first. A row above the budget is its own batch.
    import numpy as np

    token_counts = np.asarray(lengths, np.int64).reshape(-1)
    _check_arguments(token_counts, budget_tokens, rows, max_rows, bucket)
    if len(token_counts) == 0:
        return []
    if not shuffle:
        return _slice_batches(np.argsort(-token_counts, kind="stable"), token_counts, budget_tokens, rows, max_rows)
    keys = splitmix64(np.arange(len(token_counts), dtype=np.uint64), _derive_seed(seed, epoch, 0))
    order = np.argsort(keys, kind="stable")
    rows_per_batch = rows or max(int(budget_tokens or 0) // max(int(token_counts.mean()), 1), 1)
    rows_per_batch = min(rows_per_batch, max_rows or rows_per_batch)
    pool = np.arange(len(token_counts)) // (bucket * rows_per_batch)
    if bucket > 1:
        order = order[np.lexsort((-token_counts[order], pool))]  # stable, so rows of one length stay shuffled
    batches: list[Array] = []
    for start in range(0, len(token_counts), bucket * rows_per_batch):
        batches += _slice_batches(
            order[start : start + bucket * rows_per_batch], token_counts, budget_tokens, rows, max_rows
        )
    batch_order = np.argsort(
        splitmix64(np.arange(len(batches), dtype=np.uint64), _derive_seed(seed, epoch, 1)), kind="stable"
    )
    return [batches[index] for index in batch_order]


def _slice_batches(
    order: Array, sizes: Array, budget: int | None, rows: int | None, max_rows: int | None
) -> list[Array]:
    """Split ordered rows into batches; the longest row of a batch determines its size."""
    if rows is not None:
        step = min(rows, max_rows or rows)
        return [order[start : start + step] for start in range(0, len(order), step)]
    import numpy as np

    ordered_sizes = sizes[order]
    is_descending = bool((ordered_sizes[1:] <= ordered_sizes[:-1]).all())
    limit = budget or 1
    batches = []
    start = 0
    while start < len(order):
        count = min(max(limit // max(int(ordered_sizes[start]), 1), 1), max_rows or len(order))
        if not is_descending:
            running_max = np.maximum.accumulate(ordered_sizes[start : start + count])
            count = max(int(np.searchsorted(running_max * np.arange(1, len(running_max) + 1), limit, side="right")), 1)
        batches.append(order[start : start + count])
        start += count
    return batches


def _derive_seed(seed: int, epoch: int, purpose: int) -> int:
    return int(splitmix64([int(splitmix64([seed % 2**64], 1)[0]) ^ (epoch * 2 + purpose)], 2)[0])


def _check_arguments(sizes: Array, budget: int | None, rows: int | None, max_rows: int | None, bucket: int) -> None:
    if (budget is None) == (rows is None):
        raise InputError("Set either budget_tokens or rows, not both.")
    for name, value in (("budget_tokens", budget), ("rows", rows), ("max_rows", max_rows), ("bucket", bucket)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise InputError(f"{name} must be an integer >= 1, got {value!r}.")
    if len(sizes) and int(sizes.min()) < 0:
        raise InputError("lengths must not be negative.")
