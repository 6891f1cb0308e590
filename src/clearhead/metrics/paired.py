"""Paired significance tests of two models on the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike, check_class_ids, check_same_rows, check_same_shape
from clearhead.metrics.intervals import check_resampling, evaluate_or_nan, percentile_interval
from clearhead.metrics.resamples import draw_resamples, draw_swaps, merge_equal_rows, row_units
from clearhead.metrics.weights import MetricSpec, find_spec


@dataclass(frozen=True, kw_only=True)
class PairedResult:
    """Difference of a metric between models A and B (A - B), its confidence interval and its p-value."""

    difference: float
    low: float
    high: float
    p: float
    level: float = 0.95
    n: int = 0
    skipped: int = 0  # resamples among these for which the metric is undefined


@dataclass(frozen=True, kw_only=True)
class McNemarResult:
    """Rows that only A or only B predicts correctly, and the exact p-value of this split."""

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
    """Compute the paired bootstrap interval of metric(A) - metric(B), and p by approximate randomization.

    Randomization: under the null hypothesis, swapping the predictions of A and B row by row at random yields equally
    large differences. p is the fraction of random swaps, the observed assignment included, whose absolute difference
    is at least as large as the observed one.
    """
    check_resampling(n, level)
    true, a, b = np.asarray(labels), np.asarray(predictions_a), np.asarray(predictions_b)
    for array, name in ((true, "labels"), (a, "predictions_a"), (b, "predictions_b")):
        if array.ndim == 0 or not len(array):
            raise InputError(f"{name} must be an array with at least one row.")
    check_same_rows(labels=true, predictions_a=a)
    check_same_shape(predictions_a=a, predictions_b=b)
    difference = float(metric(true, a)) - float(metric(true, b))
    if math.isnan(difference):
        return PairedResult(difference=difference, low=math.nan, high=math.nan, p=math.nan, level=level)
    spec, units = find_spec(metric), row_units(len(true), groups)
    if spec is not None and spec.is_discrete and groups is None:
        units, (true, a, b) = merge_equal_rows([true, a, b])
    n_resamples = n if units.draw_count > 1 else 0
    if spec is None:
        differences_of = _function_differences(metric, true, a, b)
    else:
        differences_of = _weighted_differences(spec, true, a, b)
    resamples = draw_resamples(units, n_resamples, seed)
    resampled = _collect_differences(differences_of, ((weights, None) for weights in resamples))
    original_weights, swaps = units.original_weights(), draw_swaps(units, n_resamples, seed + 1)
    randomized = _collect_differences(differences_of, ((original_weights - swapped, swapped) for swapped in swaps))
    low, high, skipped = percentile_interval(resampled, level)
    randomized = randomized[~np.isnan(randomized)]
    extreme = int((np.abs(randomized) >= abs(difference) - 1e-12).sum())
    p = (1 + extreme) / (1 + len(randomized)) if len(randomized) else math.nan
    return PairedResult(difference=difference, low=low, high=high, p=p, level=level, n=n_resamples, skipped=skipped)


def mcnemar(labels: ArrayLike, predictions_a: ArrayLike, predictions_b: ArrayLike) -> McNemarResult:
    """Compare two accuracies on the same rows by McNemar's exact test."""
    true, a, b = (
        check_class_ids(labels, "labels"),
        check_class_ids(predictions_a, "predictions_a"),
        check_class_ids(predictions_b, "predictions_b"),
    )
    check_same_rows(labels=true, predictions_a=a, predictions_b=b)
    only_a, only_b = int(((a == true) & (b != true)).sum()), int(((a != true) & (b == true)).sum())
    n_discordant, fewer = only_a + only_b, min(only_a, only_b)
    # twice the lower tail of Binomial(n, 1/2), with log C(n, k) = log C(n, k - 1) + log((n - k + 1) / k)
    k = np.arange(1, fewer + 1)
    log_binomials = np.concatenate([[0.0], np.cumsum(np.log(n_discordant - k + 1) - np.log(k))])
    tail = np.exp(log_binomials - n_discordant * math.log(2)).sum()
    return McNemarResult(only_a=only_a, only_b=only_b, p=min(1.0, 2 * float(tail)))


# (weights of unswapped rows, weights of rows with swapped predictions or None) -> differences
Differences = Callable[[Array, Array | None], Array]


def _weighted_differences(spec: MetricSpec, true: Array, a: Array, b: Array) -> Differences:
    """Build the differences of a metric of weights; every row occurs twice, unswapped and swapped."""
    doubled_labels = np.concatenate([true, true])
    unswapped = spec.bind(true, a), spec.bind(true, b)
    swappable = spec.bind(doubled_labels, np.concatenate([a, b])), spec.bind(doubled_labels, np.concatenate([b, a]))

    def differences_of(kept_weights: Array, swapped_weights: Array | None) -> Array:
        metric_a, metric_b = unswapped if swapped_weights is None else swappable
        weights = kept_weights if swapped_weights is None else np.concatenate([kept_weights, swapped_weights])
        return metric_a.values(weights) - metric_b.values(weights)

    return differences_of


def _function_differences(metric: Callable[..., float], true: Array, a: Array, b: Array) -> Differences:
    """Build the differences of any other function, with one call per resample."""
    answers_a, answers_b, doubled_labels = np.concatenate([a, b]), np.concatenate([b, a]), np.concatenate([true, true])

    def differences_of(kept_weights: Array, swapped_weights: Array | None) -> Array:
        differences = []
        weights = kept_weights if swapped_weights is None else np.concatenate([kept_weights, swapped_weights])
        for row_counts in weights.astype(np.int64).T:
            rows = np.repeat(np.arange(len(row_counts)), row_counts)
            differences.append(
                evaluate_or_nan(metric, [doubled_labels[rows], answers_a[rows]])
                - evaluate_or_nan(metric, [doubled_labels[rows], answers_b[rows]])
            )
        return np.array(differences)

    return differences_of


def _collect_differences(differences_of: Differences, draws: Iterable[tuple[Array, Array | None]]) -> Array:
    differences = [differences_of(kept_weights, swapped_weights) for kept_weights, swapped_weights in draws]
    return np.concatenate(differences) if differences else np.zeros(0)
