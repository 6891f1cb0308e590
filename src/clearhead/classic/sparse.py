"""Rows of which few columns are not zero, in three flat numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clearhead.metrics.checks import Array


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A table of rows and columns; row r has values[indptr[r]:indptr[r + 1]], in the columns at the same places."""

    indptr: Array  # (rows + 1,)
    indices: Array  # (stored,) columns, growing within a row
    values: Array  # (stored,) float32
    width: int  # how many columns there are

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def rows(self) -> Array:
        """(stored,) the row of each value."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))


def build_sparse_rows(rows: Array, columns: Array, values: Array, *, count: int, width: int) -> SparseRows:
    """Values at rows and columns, in any order, as a table of `count` rows; zeros are left out."""
    kept = np.flatnonzero(values)
    order = kept[np.lexsort((columns[kept], rows[kept]))]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[order], minlength=count))]).astype(np.int64)
    return SparseRows(indptr, columns[order].astype(np.int32), values[order].astype(np.float32), width)


def stack_sparse_rows(parts: list[SparseRows], width: int) -> SparseRows:
    """Tables one below the other."""
    stored = np.cumsum([0, *(len(part.values) for part in parts)])
    indptr = [part.indptr[1:] + before for part, before in zip(parts, stored[:-1], strict=True)]
    return SparseRows(
        np.concatenate([np.zeros(1, np.int64), *indptr]),
        np.concatenate([np.zeros(0, np.int32), *(part.indices for part in parts)]),
        np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)]),
        width,
    )


def pair_width(width: int) -> int:
    """How many columns two texts have together, when each has `width`."""
    return 4 * width + 1


def pair_features(a: SparseRows, b: SparseRows) -> SparseRows:
    """Two texts of unit length as one row: a, b, |a - b| and a * b side by side, and their cosine."""
    keys = [side.rows * side.width + side.indices for side in (a, b)]
    both = np.union1d(*keys)
    one, two = np.zeros(len(both), np.float64), np.zeros(len(both), np.float64)
    one[np.searchsorted(both, keys[0])] = a.values
    two[np.searchsorted(both, keys[1])] = b.values
    rows, columns = both // a.width, both % a.width
    # cos(a, b) = a . b, because both are of length 1 or empty
    cosine = np.bincount(rows, weights=one * two, minlength=len(a))
    blocks = (one, two, np.abs(one - two), one * two)
    return build_sparse_rows(
        np.concatenate([rows] * 4 + [np.arange(len(a))]),
        np.concatenate([columns + a.width * block for block in range(4)] + [np.full(len(a), 4 * a.width)]),
        np.concatenate([*blocks, cosine]),
        count=len(a),
        width=pair_width(a.width),
    )
