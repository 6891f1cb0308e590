"""Metrics as functions of row weights, so that one formula serves the metric and all its bootstrap resamples.

A bootstrap resample counts some rows twice and others not at all. A metric is therefore a function of weights, (rows,
resamples), that returns one value per column; the original rows are a single column of ones. A thousand resamples take
a few array operations, and they cannot disagree with the metric itself.
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
    """A metric bound to its data: maps weights (rows, resamples) to values (resamples,), NaN where undefined."""

    rows: int
    values: Callable[[Array], Array]

    def value(self) -> float:
        """Evaluate the metric with every row counted once."""
        return float(self.values(np.ones((self.rows, 1)))[0])


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """How to bind a metric to data, and the properties that its bootstrap depends on."""

    bind: Callable[..., WeightedMetric]
    is_discrete: bool  # rows repeat, so equal rows can be merged and counted
    is_proportion: bool  # a fraction of rows, for which the Wilson interval is valid


def metric(
    *, is_discrete: bool = False, is_proportion: bool = False
) -> Callable[[Callable[P, WeightedMetric]], Callable[P, float]]:
    """Turn a function that binds a metric to data into the metric itself, with the same arguments."""

    def decorate(bind: Callable[P, WeightedMetric]) -> Callable[P, float]:
        @functools.wraps(bind)
        def evaluate(*args: P.args, **kwargs: P.kwargs) -> float:
            return bind(*args, **kwargs).value()

        function: Any = evaluate  # mypy does not allow attributes on functions
        function.__signature__ = inspect.signature(bind).replace(return_annotation="float")
        function.spec = MetricSpec(bind=bind, is_discrete=is_discrete, is_proportion=is_proportion)
        return evaluate

    return decorate


def find_spec(function: Callable[..., float]) -> MetricSpec | None:
    """Find the spec of a metric or of a `functools.partial` of one; None for any other function."""
    if isinstance(function, functools.partial):
        base_spec = find_spec(function.func) if not function.args else None
        if base_spec is None:
            return None
        return MetricSpec(
            bind=functools.partial(base_spec.bind, **function.keywords),
            is_discrete=base_spec.is_discrete,
            is_proportion=base_spec.is_proportion,
        )
    spec: MetricSpec | None = getattr(function, "spec", None)
    return spec


def divide_or(numerator: Array, denominator: Array, default: float = 0.0) -> Array:
    """Divide elementwise; `default` where the denominator is 0."""
    numerator, denominator = np.broadcast_arrays(np.asarray(numerator, np.float64), np.asarray(denominator, np.float64))
    quotient: Array = np.divide(numerator, denominator, out=np.full(numerator.shape, default), where=denominator != 0)
    return quotient


def build_group_sum(codes: Array, n_groups: int) -> Callable[[Array], Array]:
    """Build a function from weights (rows, resamples) to their sums by code, (n_groups, resamples)."""
    order = np.argsort(codes, kind="stable")
    present_codes, starts = np.unique(codes[order], return_index=True)

    def sum_by_group(weights: Array) -> Array:
        group_sums = np.zeros((n_groups, weights.shape[1]))
        if len(order):
            group_sums[present_codes] = np.add.reduceat(weights.take(order, 0), starts, axis=0)
        return group_sums

    return sum_by_group


def weighted_sums(features: Array, weights: Array) -> Array:
    """Multiply features (..., rows) by weights (rows, resamples); without BLAS, whose threads do not pay off here."""
    sums: Array = np.einsum("...r,rk->...k", features, weights)
    return sums


def weighted_mean(values: Array) -> WeightedMetric:
    """The weighted mean of one number per row."""
    return WeightedMetric(
        rows=len(values), values=lambda weights: divide_or(weighted_sums(values, weights), weights.sum(0), np.nan)
    )
