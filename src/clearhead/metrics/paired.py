"""Is one model better than another on the same rows, or is it chance?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import Array, Given, ids, same_rows, same_shape
from clearhead.metrics.intervals import called, check_draws, ends
from clearhead.metrics.resamples import kinds_of, resamples, rows_of, swaps
from clearhead.metrics.weights import Form, form_of


@dataclass(frozen=True, kw_only=True)
class Paired:
    """How much higher the metric of A is than that of B, its interval, and the chance of so much by luck alone."""

    difference: float
    low: float
    high: float
    p: float
    level: float = 0.95
    n: int = 0
    skipped: int = 0  # resamples for which the metric is undefined


@dataclass(frozen=True, kw_only=True)
class McNemar:
    """Rows that only A or only B has right, and the exact chance of such a split by luck alone."""

    only_a: int
    only_b: int
    p: float


def paired_test(
    metric: Callable[..., float],
    labels: Given,
    predictions_a: Given,
    predictions_b: Given,
    *,
    n: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
    groups: Given | None = None,
) -> Paired:
    """Paired bootstrap interval of metric(A) - metric(B), and p by approximate randomisation.

    Randomisation: if A and B were alike, exchanging their answers row by row at random would change the difference as
    much. p is the share of such exchanges, itself included, with a difference at least as large in either direction.
    """
    check_draws(n, level)
    true, a, b = np.asarray(labels), np.asarray(predictions_a), np.asarray(predictions_b)
    for array, name in ((true, "labels"), (a, "predictions_a"), (b, "predictions_b")):
        if array.ndim == 0 or not len(array):
            raise InputError(f"{name} must be an array with at least one row.")
    same_rows(labels=true, predictions_a=a)
    same_shape(predictions_a=a, predictions_b=b)
    difference = float(metric(true, a)) - float(metric(true, b))
    if math.isnan(difference):
        return Paired(difference=difference, low=math.nan, high=math.nan, p=math.nan, level=level)
    form, units = form_of(metric), rows_of(len(true), groups)
    if form is not None and form.discrete and groups is None:
        units, (true, a, b) = kinds_of([true, a, b])
    drawn = n if units.drawn > 1 else 0
    each = _called(metric, true, a, b) if form is None else _weighed(form, true, a, b)
    spread = _gathered(each, ((weights, None) for weights in resamples(units, drawn, seed)))
    chance = _gathered(each, ((units.plain() - moved, moved) for moved in swaps(units, drawn, seed + 1)))
    low, high, skipped = ends(spread, level)
    chance = chance[~np.isnan(chance)]
    extreme = int((np.abs(chance) >= abs(difference) - 1e-12).sum())
    p = (1 + extreme) / (1 + len(chance)) if len(chance) else math.nan
    return Paired(difference=difference, low=low, high=high, p=p, level=level, n=drawn, skipped=skipped)


def mcnemar(labels: Given, predictions_a: Given, predictions_b: Given) -> McNemar:
    """McNemar's exact test of two accuracies on the same rows."""
    true, a, b = ids(labels, "labels"), ids(predictions_a, "predictions_a"), ids(predictions_b, "predictions_b")
    same_rows(labels=true, predictions_a=a, predictions_b=b)
    only_a, only_b = int(((a == true) & (b != true)).sum()), int(((a != true) & (b == true)).sum())
    rows, fewer = only_a + only_b, min(only_a, only_b)
    # twice the lower tail of Binomial(rows, 1/2): log C(rows, i) grows by log((rows - i + 1) / i)
    place = np.arange(1, fewer + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(rows - place + 1) - np.log(place))]) - rows * math.log(2)
    return McNemar(only_a=only_a, only_b=only_b, p=min(1.0, 2 * float(np.exp(logs).sum())))


# (weights of rows as they are, weights of rows with the two answers exchanged or None for none) -> differences
Differences = Callable[[Array, Array | None], Array]


def _weighed(form: Form, true: Array, a: Array, b: Array) -> Differences:
    """Differences of a metric that is a function of weights: each row stands there twice, with either answer."""
    twice = np.concatenate([true, true])
    alone = form.weigh(true, a), form.weigh(true, b)
    mixed = form.weigh(twice, np.concatenate([a, b])), form.weigh(twice, np.concatenate([b, a]))

    def each(kept: Array, exchanged: Array | None) -> Array:
        first, second = alone if exchanged is None else mixed
        weights = kept if exchanged is None else np.concatenate([kept, exchanged])
        return first.values(weights) - second.values(weights)

    return each


def _called(metric: Callable[..., float], true: Array, a: Array, b: Array) -> Differences:
    """Differences of any other function, one resample after the other."""
    first, second, twice = np.concatenate([a, b]), np.concatenate([b, a]), np.concatenate([true, true])

    def each(kept: Array, exchanged: Array | None) -> Array:
        made = []
        weights = kept if exchanged is None else np.concatenate([kept, exchanged])
        for column in weights.astype(np.int64).T:
            rows = np.repeat(np.arange(len(column)), column)
            made.append(called(metric, [twice[rows], first[rows]]) - called(metric, [twice[rows], second[rows]]))
        return np.array(made)

    return each


def _gathered(each: Differences, draws: Iterable[tuple[Array, Array | None]]) -> Array:
    found = [each(kept, exchanged) for kept, exchanged in draws]
    return np.concatenate(found) if found else np.zeros(0)
