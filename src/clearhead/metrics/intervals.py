"""How sure a number is: bootstrap intervals for any metric, Wilson's interval for a share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike
from clearhead.metrics.resamples import SamplingUnits, draw_resamples, merge_equal_rows, row_units
from clearhead.metrics.weights import MetricSpec, find_spec


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A number and the range in which it would fall on other rows like these; NaN where that is not known."""

    value: float
    low: float
    high: float
    level: float = 0.95
    n: int = 0  # resamples drawn
    skipped: int = 0  # of these, resamples for which the metric is undefined
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
    """The percentile bootstrap interval of `metric(*arrays)`; rows of one group are drawn together."""
    return bootstrap_all({"value": metric}, *arrays, n=n, level=level, seed=seed, groups=groups)["value"]


def bootstrap_all(
    metrics: Mapping[str, Callable[..., float]],
    *arrays: ArrayLike,
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    groups: ArrayLike | None = None,
) -> dict[str, Interval]:
    """The intervals of several metrics of the same arrays, from the same resamples.

    The metrics of this folder take all resamples at once; any other function is called once per resample. Resamples for
    which a metric is NaN, or refuses with InputError, are skipped and counted.
    """
    check_draws(n, level)
    forms = {name: find_spec(metric) for name, metric in metrics.items()}
    made: dict[str, Interval] = {}
    for discrete in (True, False):
        chosen = {name: form for name, form in forms.items() if form is not None and form.is_discrete == discrete}
        if chosen:
            made |= _bootstrap_weighted(chosen, arrays, n, level, seed, groups)
    for name, metric in metrics.items():
        if name not in made:
            made[name] = _bootstrap_function(metric, arrays, n, level, seed, groups)
    return {name: made[name] for name in metrics}


def wilson_interval(right: float, rows: float, level: float = 0.95) -> Interval:
    """Wilson's interval for a share: it stays within 0 and 1, and is honest when every row is right."""
    check_draws(0, level)
    if not (rows > 0 and 0 <= right <= rows):
        raise InputError(f"{right} of {rows} rows is no share; rows must be more than 0 and at least as many as right.")
    low, high = wilson_bounds(np.array([right]), np.array([rows]), level)
    return Interval(value=right / rows, low=float(low[0]), high=float(high[0]), level=level, method="wilson")


def wilson_bounds(right: Array, rows: Array, level: float) -> tuple[Array, Array]:
    """Lower and upper ends of Wilson's interval for many shares at once."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share = right / rows
    centre = (share + z**2 / (2 * rows)) / (1 + z**2 / rows)
    reach = z / (1 + z**2 / rows) * np.sqrt(share * (1 - share) / rows + z**2 / (4 * rows**2))
    # rounding must not push the ends past the share itself
    return np.where(right == 0, 0.0, centre - reach), np.where(right == rows, 1.0, centre + reach)


def check_draws(n: int, level: float) -> None:
    """Refuse a number of resamples or a level that means nothing."""
    if n < 0:
        raise InputError(f"n is the number of resamples, and it is {n}; give 0 for no interval or about 1000.")
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, as 0.95, and it is {level}.")


def percentile_interval(values: Array, level: float) -> tuple[float, float, int]:
    """Lower and upper percentile of the defined values, and how many are not; NaN when none are defined."""
    defined = values[~np.isnan(values)]
    if not len(defined):
        return math.nan, math.nan, len(values)
    low, high = np.quantile(defined, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high), len(values) - len(defined)


def _bootstrap_weighted(
    forms: Mapping[str, MetricSpec],
    arrays: tuple[ArrayLike, ...],
    n: int,
    level: float,
    seed: int,
    groups: ArrayLike | None,
) -> dict[str, Interval]:
    """All resamples at once, for metrics that are functions of weights."""
    whole = {name: form.bind(*arrays) for name, form in forms.items()}  # this also checks the arrays
    units, rows = row_units(next(iter(whole.values())).rows, groups), [np.asarray(array) for array in arrays]
    if groups is None and all(form.is_discrete for form in forms.values()):
        units, rows = merge_equal_rows(rows)
    weighers = {name: form.bind(*rows) for name, form in forms.items()}
    drawn: dict[str, list[Array]] = {name: [] for name in forms}
    for weights in draw_resamples(units, n if units.draw_count > 1 else 0, seed):
        for name, weigher in weighers.items():
            drawn[name].append(weigher.values(weights))
    made = {}
    for name, form in forms.items():
        value = float(weighers[name].values(units.original_weights())[0])
        values = np.concatenate(drawn[name]) if drawn[name] else np.zeros(0)
        made[name] = _interval(value, values, level, form, units)
    return made


def _interval(value: float, values: Array, level: float, form: MetricSpec, units: SamplingUnits) -> Interval:
    """Wilson's interval where all rows are right or all are wrong, since resamples of equal rows show no doubt."""
    if form.is_proportion and value in (0.0, 1.0) and len(values):
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
    """One call per resample, for any other function."""
    rows = [np.asarray(array) for array in arrays]
    if not rows or any(array.ndim == 0 or len(array) != len(rows[0]) for array in rows):
        raise InputError("bootstrap needs arrays with the same number of rows.")
    if not len(rows[0]):
        raise InputError("bootstrap needs at least one row, and there is none.")
    units = row_units(len(rows[0]), groups)
    value = float(metric(*rows))
    found = []
    for weights in draw_resamples(units, n if units.draw_count > 1 else 0, seed):
        for column in weights.astype(np.int64).T:
            drawn = np.repeat(np.arange(len(rows[0])), column)
            found.append(evaluate_or_nan(metric, [array[drawn] for array in rows]))
    low, high, skipped = percentile_interval(np.array(found), level)
    return Interval(value=value, low=low, high=high, level=level, n=len(found), skipped=skipped)


def evaluate_or_nan(metric: Callable[..., float], arrays: list[Array]) -> float:
    """The metric, or NaN where it refuses the rows."""
    try:
        return float(metric(*arrays))
    except InputError:
        return math.nan
