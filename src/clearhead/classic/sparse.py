"""Sparse feature matrices (CSR) in three flat numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clearhead.metrics.checks import Array


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A CSR matrix: row r has the values[indptr[r]:indptr[r + 1]] in the columns indices[indptr[r]:indptr[r + 1]]."""

    indptr: Array  # (rows + 1,)
    indices: Array  # (stored,) columns, ascending within a row
    values: Array  # (stored,) float32
    width: int  # number of columns

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def rows(self) -> Array:
        """The row of each value, (stored,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))


def build_sparse_rows(rows: Array, columns: Array, values: Array, *, count: int, width: int) -> SparseRows:
    """Build `count` rows from values at rows and columns, in any order; zeros are dropped."""
    nonzero = np.flatnonzero(values)
    order = nonzero[np.lexsort((columns[nonzero], rows[nonzero]))]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[order], minlength=count))]).astype(np.int64)
    return SparseRows(indptr, columns[order].astype(np.int32), values[order].astype(np.float32), width)


def stack_sparse_rows(parts: list[SparseRows], width: int) -> SparseRows:
    """Stack matrices vertically."""
    value_counts = np.cumsum([0, *(len(part.values) for part in parts)])
    indptr = [part.indptr[1:] + offset for part, offset in zip(parts, value_counts[:-1], strict=True)]
    return SparseRows(
        np.concatenate([np.zeros(1, np.int64), *indptr]),
        np.concatenate([np.zeros(0, np.int32), *(part.indices for part in parts)]),
        np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)]),
        width,
    )


def count_pair_columns(width: int) -> int:
    """Number of features of a pair of texts with `width` features each."""
    return 4 * width + 1


def combine_pairs(a: SparseRows, b: SparseRows) -> SparseRows:
    """Combine pairs of unit-length rows: a, b, |a - b| and a * b side by side, and their cosine."""
    cell_keys = [table.rows * table.width + table.indices for table in (a, b)]
    union = np.union1d(*cell_keys)
    values_a, values_b = np.zeros(len(union), np.float64), np.zeros(len(union), np.float64)
    values_a[np.searchsorted(union, cell_keys[0])] = a.values
    values_b[np.searchsorted(union, cell_keys[1])] = b.values
    rows, columns = union // a.width, union % a.width
    # cos(a, b) = a . b, since both have length 1 or are empty
    cosine = np.bincount(rows, weights=values_a * values_b, minlength=len(a))
    blocks = (values_a, values_b, np.abs(values_a - values_b), values_a * values_b)
    return build_sparse_rows(
        np.concatenate([rows] * 4 + [np.arange(len(a))]),
        np.concatenate([columns + a.width * block for block in range(4)] + [np.full(len(a), 4 * a.width)]),
        np.concatenate([*blocks, cosine]),
        count=len(a),
        width=count_pair_columns(a.width),
    )
