"""One formula for a metric and for all its resamples: how often does each row count?

A bootstrap resample counts some rows twice and some not at all. So a metric is written as a function of weights, (rows,
resamples), and gives one value per column; plain rows are a single column of ones. A thousand resamples are then a few
array operations, and they cannot disagree with the metric itself.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec

import numpy as np

from clearhead.metrics.checks import Array

P = ParamSpec("P")


@dataclass(frozen=True, kw_only=True)
class WeightedMetric:
    """A metric bound to its data: weights (rows, resamples) give values (resamples,), NaN where it is undefined."""

    rows: int
    values: Callable[[Array], Array]

    def value(self) -> float:
        """The metric itself: every row counts once."""
        return float(self.values(np.ones((self.rows, 1)))[0])


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """How a metric is weighed, and what is known of it."""

    bind: Callable[..., WeightedMetric]
    is_discrete: bool  # rows repeat, so that equal rows can be counted together
    is_proportion: bool  # a share of rows, for which Wilson's interval holds


def metric(
    *, discrete: bool = False, share: bool = False
) -> Callable[[Callable[P, WeightedMetric]], Callable[P, float]]:
    """Make a function that binds a metric to its data into the metric: same arguments, a number comes back."""

    def made(weigh: Callable[P, WeightedMetric]) -> Callable[P, float]:
        @functools.wraps(weigh)
        def value(*args: P.args, **kwargs: P.kwargs) -> float:
            return weigh(*args, **kwargs).value()

        seen: Any = value  # a function carries attributes; the type checker does not know
        seen.__signature__ = inspect.signature(weigh).replace(return_annotation="float")
        seen.spec = MetricSpec(bind=weigh, is_discrete=discrete, is_proportion=share)
        return value

    return made


def find_spec(given: Callable[..., float]) -> MetricSpec | None:
    """The weighed form of a metric or of a `functools.partial` of one; None for any other function."""
    if isinstance(given, functools.partial):
        form = find_spec(given.func) if not given.args else None
        if form is None:
            return None
        return MetricSpec(
            bind=functools.partial(form.bind, **given.keywords),
            is_discrete=form.is_discrete,
            is_proportion=form.is_proportion,
        )
    found: MetricSpec | None = getattr(given, "spec", None)
    return found


def divide_or(over: Array, under: Array, otherwise: float = 0.0) -> Array:
    """over / under, and `otherwise` where under is 0."""
    over, under = np.broadcast_arrays(np.asarray(over, np.float64), np.asarray(under, np.float64))
    made: Array = np.divide(over, under, out=np.full(over.shape, otherwise), where=under != 0)
    return made


def build_group_sum(codes: Array, n: int) -> Callable[[Array], Array]:
    """A function from weights (rows, resamples) to their sums by code, (n, resamples)."""
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)

    def sums(weights: Array) -> Array:
        made = np.zeros((n, weights.shape[1]))
        if len(order):
            made[present] = np.add.reduceat(weights.take(order, 0), starts, axis=0)
        return made

    return sums


def weighted_sums(features: Array, weights: Array) -> Array:
    """features (..., rows) times weights (rows, resamples), without BLAS: its threads cost more than they save here."""
    made: Array = np.einsum("...r,rk->...k", features, weights)
    return made


def weighted_mean(values: Array) -> WeightedMetric:
    """The mean of one number per row."""
    return WeightedMetric(
        rows=len(values), values=lambda weights: divide_or(weighted_sums(values, weights), weights.sum(0), np.nan)
    )
