"""Is one model better than another on the same rows, or is it chance?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike, check_class_ids, check_same_rows, check_same_shape
from clearhead.metrics.intervals import check_draws, evaluate_or_nan, percentile_interval
from clearhead.metrics.resamples import draw_resamples, draw_swaps, merge_equal_rows, row_units
from clearhead.metrics.weights import MetricSpec, find_spec


@dataclass(frozen=True, kw_only=True)
class PairedResult:
    """How much higher the metric of A is than that of B, its interval, and the chance of so much by luck alone."""

    difference: float
    low: float
    high: float
    p: float
    level: float = 0.95
    n: int = 0
    skipped: int = 0  # resamples for which the metric is undefined


@dataclass(frozen=True, kw_only=True)
class McNemarResult:
    """Rows that only A or only B has right, and the exact chance of such a split by luck alone."""

    only_a: int
    only_b: int
    p: float


def paired_test(
    metric: Callable[..., float],
    labels: ArrayLike,
    predictions_a: ArrayLike,
    predictions_b: ArrayLike,
    *,
    n: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
    groups: ArrayLike | None = None,
) -> PairedResult:
    """Paired bootstrap interval of metric(A) - metric(B), and p by approximate randomisation.

    Randomisation: if A and B were alike, exchanging their answers row by row at random would change the difference as
    much. p is the share of such exchanges, itself included, with a difference at least as large in either direction.
    """
    check_draws(n, level)
    true, a, b = np.asarray(labels), np.asarray(predictions_a), np.asarray(predictions_b)
    for array, name in ((true, "labels"), (a, "predictions_a"), (b, "predictions_b")):
        if array.ndim == 0 or not len(array):
            raise InputError(f"{name} must be an array with at least one row.")
    check_same_rows(labels=true, predictions_a=a)
    check_same_shape(predictions_a=a, predictions_b=b)
    difference = float(metric(true, a)) - float(metric(true, b))
    if math.isnan(difference):
        return PairedResult(difference=difference, low=math.nan, high=math.nan, p=math.nan, level=level)
    form, units = find_spec(metric), row_units(len(true), groups)
    if form is not None and form.is_discrete and groups is None:
        units, (true, a, b) = merge_equal_rows([true, a, b])
    drawn = n if units.draw_count > 1 else 0
    each = _function_differences(metric, true, a, b) if form is None else _weighted_differences(form, true, a, b)
    spread = _concatenate(each, ((weights, None) for weights in draw_resamples(units, drawn, seed)))
    chance = _concatenate(
        each, ((units.original_weights() - moved, moved) for moved in draw_swaps(units, drawn, seed + 1))
    )
    low, high, skipped = percentile_interval(spread, level)
    chance = chance[~np.isnan(chance)]
    extreme = int((np.abs(chance) >= abs(difference) - 1e-12).sum())
    p = (1 + extreme) / (1 + len(chance)) if len(chance) else math.nan
    return PairedResult(difference=difference, low=low, high=high, p=p, level=level, n=drawn, skipped=skipped)


def mcnemar(labels: ArrayLike, predictions_a: ArrayLike, predictions_b: ArrayLike) -> McNemarResult:
    """McNemar's exact test of two accuracies on the same rows."""
    true, a, b = (
        check_class_ids(labels, "labels"),
        check_class_ids(predictions_a, "predictions_a"),
        check_class_ids(predictions_b, "predictions_b"),
    )
    check_same_rows(labels=true, predictions_a=a, predictions_b=b)
    only_a, only_b = int(((a == true) & (b != true)).sum()), int(((a != true) & (b == true)).sum())
    rows, fewer = only_a + only_b, min(only_a, only_b)
    # twice the lower tail of Binomial(rows, 1/2): log C(rows, i) grows by log((rows - i + 1) / i)
    place = np.arange(1, fewer + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(rows - place + 1) - np.log(place))]) - rows * math.log(2)
    return McNemarResult(only_a=only_a, only_b=only_b, p=min(1.0, 2 * float(np.exp(logs).sum())))


# (weights of rows as they are, weights of rows with the two answers exchanged or None for none) -> differences
Differences = Callable[[Array, Array | None], Array]


def _weighted_differences(form: MetricSpec, true: Array, a: Array, b: Array) -> Differences:
    """Differences of a metric that is a function of weights: each row stands there twice, with either answer."""
    twice = np.concatenate([true, true])
    alone = form.bind(true, a), form.bind(true, b)
    mixed = form.bind(twice, np.concatenate([a, b])), form.bind(twice, np.concatenate([b, a]))

    def each(kept: Array, exchanged: Array | None) -> Array:
        first, second = alone if exchanged is None else mixed
        weights = kept if exchanged is None else np.concatenate([kept, exchanged])
        return first.values(weights) - second.values(weights)

    return each


def _function_differences(metric: Callable[..., float], true: Array, a: Array, b: Array) -> Differences:
    """Differences of any other function, one resample after the other."""
    first, second, twice = np.concatenate([a, b]), np.concatenate([b, a]), np.concatenate([true, true])

    def each(kept: Array, exchanged: Array | None) -> Array:
        made = []
        weights = kept if exchanged is None else np.concatenate([kept, exchanged])
        for column in weights.astype(np.int64).T:
            rows = np.repeat(np.arange(len(column)), column)
            made.append(
                evaluate_or_nan(metric, [twice[rows], first[rows]])
                - evaluate_or_nan(metric, [twice[rows], second[rows]])
            )
        return np.array(made)

    return each


def _concatenate(each: Differences, draws: Iterable[tuple[Array, Array | None]]) -> Array:
    found = [each(kept, exchanged) for kept, exchanged in draws]
    return np.concatenate(found) if found else np.zeros(0)
