"""Confidence intervals: the bootstrap for any metric, the Wilson interval for a proportion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from clearhead.deprecation import renamed_parameters
from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike
from clearhead.metrics.resamples import SamplingUnits, draw_resamples, merge_equal_rows, row_units
from clearhead.metrics.weights import MetricSpec, find_spec


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A metric and its confidence interval; NaN where they are undefined."""

    value: float
    low: float
    high: float
    level: float = 0.95
    n: int = 0  # resamples drawn
    skipped: int = 0  # resamples among these for which the metric is undefined
    method: str = "bootstrap"  # or "wilson"

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def bootstrap(
    metric: Callable[..., float],
    *arrays: ArrayLike,
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    groups: ArrayLike | None = None,
) -> Interval:
    """Compute the percentile bootstrap interval of `metric(*arrays)`; rows of one group are drawn together."""
    return bootstrap_all({"value": metric}, *arrays, n=n, level=level, seed=seed, groups=groups)["value"]


def bootstrap_all(
    metrics: Mapping[str, Callable[..., float]],
    *arrays: ArrayLike,
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    groups: ArrayLike | None = None,
) -> dict[str, Interval]:
    """Compute the intervals of several metrics of the same arrays, from the same resamples.

    The metrics of this package evaluate all resamples at once; any other function is called once per resample.
    Resamples for which a metric is NaN, or raises InputError, are skipped and counted.
    """
    check_resampling(n, level)
    specs = {name: find_spec(metric) for name, metric in metrics.items()}
    intervals: dict[str, Interval] = {}
    for discrete in (True, False):
        selected = {name: spec for name, spec in specs.items() if spec is not None and spec.is_discrete == discrete}
        if selected:
            intervals |= _bootstrap_weighted(selected, arrays, n, level, seed, groups)
    for name, metric in metrics.items():
        if name not in intervals:
            intervals[name] = _bootstrap_function(metric, arrays, n, level, seed, groups)
    return {name: intervals[name] for name in metrics}


@renamed_parameters(right="correct")
def wilson_interval(correct: float, rows: float, level: float = 0.95) -> Interval:
    """Compute the Wilson interval of a proportion: within 0 and 1, and not empty when every row is correct."""
    check_resampling(0, level)
    if not (rows > 0 and 0 <= correct <= rows):
        raise InputError(f"{correct} of {rows} rows is not a proportion; expected rows > 0 and 0 <= correct <= rows.")
    low, high = wilson_bounds(np.array([correct]), np.array([rows]), level)
    return Interval(value=correct / rows, low=float(low[0]), high=float(high[0]), level=level, method="wilson")


def wilson_bounds(correct: Array, rows: Array, level: float) -> tuple[Array, Array]:
    """Compute the lower and upper bounds of the Wilson intervals of several proportions."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    proportion = correct / rows
    center = (proportion + z**2 / (2 * rows)) / (1 + z**2 / rows)
    half_width = z / (1 + z**2 / rows) * np.sqrt(proportion * (1 - proportion) / rows + z**2 / (4 * rows**2))
    # rounding must not push the bounds past the proportion
    return np.where(correct == 0, 0.0, center - half_width), np.where(correct == rows, 1.0, center + half_width)


def check_resampling(n: int, level: float) -> None:
    """Check the number of resamples and the confidence level."""
    if n < 0:
        raise InputError(f"n (the number of resamples) must be >= 0, got {n}; use about 1000, or 0 for no interval.")
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, such as 0.95, got {level}.")


def percentile_interval(values: Array, level: float) -> tuple[float, float, int]:
    """Lower and upper percentile of the defined values (NaN if there are none), and the count of undefined ones."""
    defined = values[~np.isnan(values)]
    if not len(defined):
        return math.nan, math.nan, len(values)
    low, high = np.quantile(defined, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high), len(values) - len(defined)


def _bootstrap_weighted(
    specs: Mapping[str, MetricSpec],
    arrays: tuple[ArrayLike, ...],
    n: int,
    level: float,
    seed: int,
    groups: ArrayLike | None,
) -> dict[str, Interval]:
    """Bootstrap metrics that are functions of weights, with all resamples at once."""
    bound_metrics = {name: spec.bind(*arrays) for name, spec in specs.items()}  # this also checks the arrays
    units, rows = row_units(next(iter(bound_metrics.values())).rows, groups), [np.asarray(array) for array in arrays]
    if groups is None and all(spec.is_discrete for spec in specs.values()):
        units, rows = merge_equal_rows(rows)
    merged_metrics = {name: spec.bind(*rows) for name, spec in specs.items()}
    resampled: dict[str, list[Array]] = {name: [] for name in specs}
    for weights in draw_resamples(units, n if units.draw_count > 1 else 0, seed):
        for name, merged_metric in merged_metrics.items():
            resampled[name].append(merged_metric.values(weights))
    intervals = {}
    for name, spec in specs.items():
        value = float(merged_metrics[name].values(units.original_weights())[0])
        values = np.concatenate(resampled[name]) if resampled[name] else np.zeros(0)
        intervals[name] = _build_interval(value, values, level, spec, units)
    return intervals


def _build_interval(value: float, values: Array, level: float, spec: MetricSpec, units: SamplingUnits) -> Interval:
    """The percentile interval; the Wilson interval if all rows are equal, since their resamples do not vary."""
    if spec.is_proportion and value in (0.0, 1.0) and len(values):
        return wilson_interval(value * units.draw_count, units.draw_count, level)
    low, high, skipped = percentile_interval(values, level)
    return Interval(value=value, low=low, high=high, level=level, n=len(values), skipped=skipped)


def _bootstrap_function(
    metric: Callable[..., float],
    arrays: tuple[ArrayLike, ...],
    n: int,
    level: float,
    seed: int,
    groups: ArrayLike | None,
) -> Interval:
    """Bootstrap any other function, with one call per resample."""
    rows = [np.asarray(array) for array in arrays]
    if not rows or any(array.ndim == 0 or len(array) != len(rows[0]) for array in rows):
        raise InputError("bootstrap needs arrays with the same number of rows.")
    if not len(rows[0]):
        raise InputError("bootstrap needs at least one row, got none.")
    units = row_units(len(rows[0]), groups)
    value = float(metric(*rows))
    values = []
    for weights in draw_resamples(units, n if units.draw_count > 1 else 0, seed):
        for row_counts in weights.astype(np.int64).T:
            row_indices = np.repeat(np.arange(len(rows[0])), row_counts)
            values.append(evaluate_or_nan(metric, [array[row_indices] for array in rows]))
    low, high, skipped = percentile_interval(np.array(values), level)
    return Interval(value=value, low=low, high=high, level=level, n=len(values), skipped=skipped)


def evaluate_or_nan(metric: Callable[..., float], arrays: list[Array]) -> float:
    """Evaluate a metric; NaN if it rejects the rows."""
    try:
        return float(metric(*arrays))
    except InputError:
        return math.nan
