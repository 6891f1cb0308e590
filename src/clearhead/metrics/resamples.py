"""Rows drawn again with replacement, as weights: how often each row counts in each resample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike

CHUNK = 1 << 20  # weights made at a time: 8 MB


@dataclass(frozen=True, kw_only=True)
class SamplingUnits:
    """What is drawn: rows, kinds of equal rows with their counts, or whole groups of rows."""

    size: int  # weights per resample: rows, or kinds of rows
    counts: Array | None = None  # rows of each kind
    groups: Array | None = None  # the group number of each row

    @property
    def draw_count(self) -> int:
        """How many things can be drawn; an interval needs two."""
        if self.groups is not None:
            return int(self.groups.max()) + 1
        return self.size if self.counts is None else int(self.counts.sum())

    def original_weights(self) -> Array:
        """The weights of the data as they are, (size, 1)."""
        return np.ones((self.size, 1)) if self.counts is None else self.counts[:, None].astype(np.float64)


def row_units(size: int, groups: ArrayLike | None) -> SamplingUnits:
    """Every row by itself, or in the groups that are given (numbers or names)."""
    if groups is None:
        return SamplingUnits(size=size)
    made = np.asarray(groups)
    if made.shape != (size,):
        raise InputError(f"groups must name one group per row: {size} rows, and its shape is {made.shape}.")
    return SamplingUnits(size=size, groups=np.unique(made, return_inverse=True)[1])


def merge_equal_rows(arrays: Sequence[Array]) -> tuple[SamplingUnits, list[Array]]:
    """Equal rows taken together: how many of each kind, and one row of each; as they are when few are equal."""
    rows = len(arrays[0])
    codes = np.zeros(rows, np.int64)
    for array in arrays:
        axis = None if array.ndim == 1 else 0
        distinct, code = np.unique(array, return_inverse=True, axis=axis)
        codes = np.unique(codes * len(distinct) + code.ravel(), return_inverse=True)[1]
    first, counts = np.unique(codes, return_index=True, return_counts=True)[1:]
    if len(counts) * 4 > rows:  # drawing kinds costs more than drawing rows
        return SamplingUnits(size=rows), list(arrays)
    return SamplingUnits(size=len(counts), counts=counts), [array[first] for array in arrays]


def draw_resamples(units: SamplingUnits, n: int, seed: int) -> Iterator[Array]:
    """Weights of n resamples, some (size, resamples) at a time; the same seed draws the same."""
    rng = np.random.default_rng(seed)
    for some in chunk_sizes(units.size, n):
        if units.counts is not None:
            # drawing rows one by one and counting kinds is a multinomial draw of kinds, and that is all a count can see
            yield rng.multinomial(units.draw_count, units.counts / units.draw_count, some).T.astype(np.float64)
        elif units.groups is not None:
            yield _draw_with_replacement(rng, units.draw_count, some)[units.groups]
        else:
            yield _draw_with_replacement(rng, units.size, some)


def draw_swaps(units: SamplingUnits, n: int, seed: int) -> Iterator[Array]:
    """How many rows of each unit change sides when a coin is thrown for each (group of) row, (size, resamples)."""
    rng = np.random.default_rng(seed)
    for some in chunk_sizes(units.size, n):
        if units.counts is not None:
            yield rng.binomial(units.counts[:, None], 0.5, (units.size, some)).astype(np.float64)
        elif units.groups is not None:
            yield rng.integers(0, 2, (units.draw_count, some), np.int8)[units.groups].astype(np.float64)
        else:
            yield rng.integers(0, 2, (units.size, some), np.int8).astype(np.float64)


def chunk_sizes(size: int, n: int) -> Iterator[int]:
    """n resamples in portions that fit into a small memory."""
    most = max(1, CHUNK // size)
    while n > 0:
        yield min(n, most)
        n -= most


def _draw_with_replacement(rng: np.random.Generator, size: int, some: int) -> Array:
    """Each column is `size` draws with replacement, counted."""
    place = rng.integers(0, size, (size, some)) * some + np.arange(some)
    return np.bincount(place.ravel(), minlength=size * some).reshape(size, some).astype(np.float64)
