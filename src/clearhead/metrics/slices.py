"""Error analysis by slices: a metric on every subset of the rows with similar values in a column, worst first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.deprecation import renamed_parameters
from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike
from clearhead.metrics.intervals import Interval, bootstrap

MAX_EXACT_INTEGER = 2**53  # larger integers are treated as names, since float64 cannot represent them exactly


@dataclass(frozen=True, kw_only=True)
class Slice:
    """A subset of the rows and the metric on it."""

    column: str
    name: str
    rows: int
    interval: Interval
    small: bool  # too few rows for a reliable metric

    @property
    def value(self) -> float:
        """The metric on these rows."""
        return self.interval.value


@renamed_parameters(least="min_rows")
def slice_table(
    columns: Mapping[str, Sequence[Any]],
    metric: Callable[..., float],
    *arrays: ArrayLike,
    top: int = 10,
    bins: int = 4,
    min_rows: int = 30,
    lower_is_worse: bool = True,
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> list[Slice]:
    """Compute `metric(*arrays)` on every slice of every column, worst first; slices below `min_rows` come last.

    A column of names is sliced by its `top` most frequent values, with all others in one slice; a column of numbers
    with more than `top` distinct values by quantiles. Empty cells form a slice. Use `proportion` for correctness flags.
    """
    if top < 1 or bins < 1:
        raise InputError(f"top and bins must be at least 1, got top={top} and bins={bins}.")
    row_arrays = [np.asarray(array) for array in arrays]
    if not row_arrays or any(array.ndim == 0 or len(array) != len(row_arrays[0]) for array in row_arrays):
        raise InputError("slice_table needs arrays with the same number of rows.")
    row_count = len(row_arrays[0])
    slices = []
    for column, values in columns.items():
        if len(values) != row_count:
            raise InputError(f"Column {column!r} has {len(values)} rows, expected {row_count}.")
        for name, rows in split_column(values, top, bins):
            interval = bootstrap(metric, *(array[rows] for array in row_arrays), n=n, level=level, seed=seed)
            slices.append(
                Slice(column=column, name=name, rows=len(rows), interval=interval, small=len(rows) < min_rows)
            )
    sign = 1 if lower_is_worse else -1
    return sorted(slices, key=lambda s: (s.small, math.isnan(s.value), 0 if math.isnan(s.value) else sign * s.value))


def split_column(values: Sequence[Any], top: int, bins: int) -> Iterator[tuple[str, Array]]:
    """Split rows into named slices, each with its row indices; every row is in exactly one."""
    cells = [_normalize_cell(value) for value in values]
    filled_rows = [row for row, cell in enumerate(cells) if cell is not None]
    filled_cells = [cells[row] for row in filled_rows]
    is_numeric = bool(filled_cells) and all(isinstance(cell, int | float) for cell in filled_cells)
    if is_numeric and len(set(filled_cells)) > top:
        slice_names = _name_quantiles(np.array(filled_cells, np.float64), bins)
    else:
        slice_names = _name_frequent_values([str(cell) for cell in filled_cells], top)
    for name in dict.fromkeys(slice_names):
        slice_rows = [row for row, slice_name in zip(filled_rows, slice_names, strict=True) if slice_name == name]
        yield name, np.array(slice_rows)
    empty = np.array([row for row, cell in enumerate(cells) if cell is None], np.int64)
    if len(empty):
        yield "(empty)", empty


def _normalize_cell(value: Any) -> str | int | float | None:
    """Convert a cell to a name or a number; None if it is empty."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) or (type(value) is int and abs(value) < MAX_EXACT_INTEGER):
        return value
    return ", ".join(map(str, value)) or None if isinstance(value, list | tuple | set) else str(value)


def _name_frequent_values(cells: list[str], top: int) -> list[str]:
    """The slice of each cell: its value if frequent, else a name shared by all other values."""
    value_counts = sorted(Counter(cells).items(), key=lambda item: (-item[1], item[0]))
    # top + 1 values are all named, since "(1 other values)" would take as much space
    named_count = top if len(value_counts) > top + 1 else top + 1
    frequent = {cell for cell, _ in value_counts[:named_count]}
    others_name = f"({len(value_counts) - len(frequent)} other values)"
    return [cell if cell in frequent else others_name for cell in cells]


def _name_quantiles(cells: Array, bins: int) -> list[str]:
    """The slice of each cell: a bin of about equally many rows, named by its smallest and largest value."""
    edges = np.unique(np.quantile(cells, np.arange(1, bins) / bins, method="inverted_cdf"))
    bin_indices = np.searchsorted(edges, cells, side="left")  # an edge belongs to the bin below it
    name_of_bin = {}
    for bin_index in np.unique(bin_indices):
        bin_cells = cells[bin_indices == bin_index]
        low, high = bin_cells.min(), bin_cells.max()
        name_of_bin[bin_index] = f"{low:g} to {high:g}" if low < high else f"{low:g}"
    return [name_of_bin[bin_index] for bin_index in bin_indices]
