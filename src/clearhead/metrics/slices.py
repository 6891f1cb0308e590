"""Where a model is weak: the same metric for every part of the rows, by any column, the worst first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike
from clearhead.metrics.intervals import Interval, bootstrap

LARGEST_NUMBER = 2**53  # whole numbers beyond are names: a float would not tell them apart


@dataclass(frozen=True, kw_only=True)
class Slice:
    """A part of the rows and how the model does there."""

    column: str
    name: str
    rows: int
    interval: Interval
    small: bool  # too few rows to say much

    @property
    def value(self) -> float:
        """The metric on these rows."""
        return self.interval.value


def slice_table(
    columns: Mapping[str, Sequence[Any]],
    metric: Callable[..., float],
    *arrays: ArrayLike,
    top: int = 10,
    bins: int = 4,
    least: int = 30,
    lower_is_worse: bool = True,
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> list[Slice]:
    """`metric(*arrays)` for every slice of every column, the worst first; slices below `least` rows are flagged, last.

    A column of names is sliced by its `top` most frequent values, the rest together; a column of numbers with more than
    `top` different values by quantiles. Empty cells are a slice. For "is it right" use the metric `share`.
    """
    if top < 1 or bins < 1:
        raise InputError(f"top and bins must be at least 1, and they are {top} and {bins}.")
    data = [np.asarray(array) for array in arrays]
    if not data or any(array.ndim == 0 or len(array) != len(data[0]) for array in data):
        raise InputError("slice_table needs arrays with the same number of rows.")
    found = []
    for column, values in columns.items():
        if len(values) != len(data[0]):
            raise InputError(f"Column {column!r} has {len(values)} rows, and there are {len(data[0])}.")
        for name, rows in split_column(values, top, bins):
            interval = bootstrap(metric, *(array[rows] for array in data), n=n, level=level, seed=seed)
            found.append(Slice(column=column, name=name, rows=len(rows), interval=interval, small=len(rows) < least))
    sign = 1 if lower_is_worse else -1
    return sorted(found, key=lambda s: (s.small, math.isnan(s.value), 0 if math.isnan(s.value) else sign * s.value))


def split_column(values: Sequence[Any], top: int, bins: int) -> Iterator[tuple[str, Array]]:
    """Names of slices and their row numbers; every row is in exactly one."""
    cells = [_normalize_cell(value) for value in values]
    there = [place for place, cell in enumerate(cells) if cell is not None]
    given = [cells[place] for place in there]
    numeric = bool(given) and all(isinstance(cell, int | float) for cell in given)
    if numeric and len(set(given)) > top:
        named = _name_quantiles(np.array(given, np.float64), bins)
    else:
        named = _name_frequent_values([str(cell) for cell in given], top)
    for name in dict.fromkeys(named):
        yield name, np.array([place for place, own in zip(there, named, strict=True) if own == name])
    empty = np.array([place for place, cell in enumerate(cells) if cell is None], np.int64)
    if len(empty):
        yield "(empty)", empty


def _normalize_cell(value: Any) -> str | int | float | None:
    """A cell as a name or a number; None when it is empty."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) or (type(value) is int and abs(value) < LARGEST_NUMBER):
        return value
    return ", ".join(map(str, value)) or None if isinstance(value, list | tuple | set) else str(value)


def _name_frequent_values(given: list[str], top: int) -> list[str]:
    """The most frequent values by themselves, all others under one name."""
    counted = sorted(Counter(given).items(), key=lambda item: (-item[1], item[0]))
    own = {name for name, _ in counted[: top if len(counted) > top + 1 else top + 1]}  # no "1 other value"
    rest = f"({len(counted) - len(own)} other values)"
    return [name if name in own else rest for name in given]


def _name_quantiles(given: Array, bins: int) -> list[str]:
    """Bins of about equally many rows, named by the smallest and largest value in them."""
    edges = np.unique(np.quantile(given, np.arange(1, bins) / bins, method="inverted_cdf"))
    codes = np.searchsorted(edges, given, side="left")  # an edge belongs to the bin that it ends
    names = {}
    for code in np.unique(codes):
        own = given[codes == code]
        names[code] = f"{own.min():g} to {own.max():g}" if own.min() < own.max() else f"{own.min():g}"
    return [names[code] for code in codes]
