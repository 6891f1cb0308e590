"""Bootstrap resamples as weights: how often each row occurs in each resample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike

MAX_CHUNK_WEIGHTS = 1 << 20  # weights computed at a time (8 MB)


@dataclass(frozen=True, kw_only=True)
class SamplingUnits:
    """What is drawn: rows, distinct rows with their counts, or whole groups of rows."""

    size: int  # weights per resample: rows, or distinct rows
    counts: Array | None = None  # occurrences of each distinct row
    groups: Array | None = None  # the group id of each row

    @property
    def draw_count(self) -> int:
        """Number of units in a resample; an interval needs at least two."""
        if self.groups is not None:
            return int(self.groups.max()) + 1
        return self.size if self.counts is None else int(self.counts.sum())

    def original_weights(self) -> Array:
        """The weights of the original data, (size, 1)."""
        return np.ones((self.size, 1)) if self.counts is None else self.counts[:, None].astype(np.float64)


def row_units(size: int, groups: ArrayLike | None) -> SamplingUnits:
    """Draw single rows, or whole groups (numbers or names) if given."""
    if groups is None:
        return SamplingUnits(size=size)
    group_names = np.asarray(groups)
    if group_names.shape != (size,):
        raise InputError(f"groups must name one group per row ({size} rows), got shape {group_names.shape}.")
    return SamplingUnits(size=size, groups=np.unique(group_names, return_inverse=True)[1])


def merge_equal_rows(arrays: Sequence[Array]) -> tuple[SamplingUnits, list[Array]]:
    """Merge equal rows into distinct rows with counts; rows stay unmerged if few are equal."""
    rows = len(arrays[0])
    codes = np.zeros(rows, np.int64)
    for array in arrays:
        axis = None if array.ndim == 1 else 0
        distinct, code = np.unique(array, return_inverse=True, axis=axis)
        codes = np.unique(codes * len(distinct) + code.ravel(), return_inverse=True)[1]
    first_rows, counts = np.unique(codes, return_index=True, return_counts=True)[1:]
    if len(counts) * 4 > rows:  # drawing counts is then slower than drawing rows
        return SamplingUnits(size=rows), list(arrays)
    return SamplingUnits(size=len(counts), counts=counts), [array[first_rows] for array in arrays]


def draw_resamples(units: SamplingUnits, n: int, seed: int) -> Iterator[Array]:
    """Draw the weights of n resamples in chunks of (size, resamples), deterministically for a seed."""
    rng = np.random.default_rng(seed)
    for chunk_size in chunk_sizes(units.size, n):
        if units.counts is not None:
            # drawing rows and counting the distinct ones is a multinomial draw of the counts
            yield rng.multinomial(units.draw_count, units.counts / units.draw_count, chunk_size).T.astype(np.float64)
        elif units.groups is not None:
            yield _draw_with_replacement(rng, units.draw_count, chunk_size)[units.groups]
        else:
            yield _draw_with_replacement(rng, units.size, chunk_size)


def draw_swaps(units: SamplingUnits, n: int, seed: int) -> Iterator[Array]:
    """Draw the number of rows of each unit to swap, by a coin flip per row or group, in chunks of (size, resamples)."""
    rng = np.random.default_rng(seed)
    for chunk_size in chunk_sizes(units.size, n):
        if units.counts is not None:
            yield rng.binomial(units.counts[:, None], 0.5, (units.size, chunk_size)).astype(np.float64)
        elif units.groups is not None:
            yield rng.integers(0, 2, (units.draw_count, chunk_size), np.int8)[units.groups].astype(np.float64)
        else:
            yield rng.integers(0, 2, (units.size, chunk_size), np.int8).astype(np.float64)


def chunk_sizes(size: int, n: int) -> Iterator[int]:
    """Split n resamples into chunks of bounded memory."""
    max_resamples = max(1, MAX_CHUNK_WEIGHTS // size)
    while n > 0:
        yield min(n, max_resamples)
        n -= max_resamples


def _draw_with_replacement(rng: np.random.Generator, size: int, n_resamples: int) -> Array:
    """Draw `size` units with replacement per column, and count each."""
    flat_indices = rng.integers(0, size, (size, n_resamples)) * n_resamples + np.arange(n_resamples)
    return np.bincount(flat_indices.ravel(), minlength=size * n_resamples).reshape(size, n_resamples).astype(np.float64)
