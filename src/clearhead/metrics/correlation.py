"""Regression metrics: three correlations, two errors and R².

The correlation with a constant (or of a single row) is undefined: NaN, as in scipy.
"""

from __future__ import annotations

import math

import numpy as np

from clearhead.metrics.checks import Array, ArrayLike, check_reals, check_same_rows
from clearhead.metrics.weights import WeightedMetric, build_group_sum, divide_or, metric, weighted_mean, weighted_sums


@metric()
def pearson(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Pearson correlation, -1 to 1."""
    x, y = (_rescale(column) for column in _check_real_pair(labels, predictions))
    sums = np.stack([x, y, x * x, y * y, x * y])

    # r = cov(x, y) / sqrt(var(x) var(y))
    def values(weights: Array) -> Array:
        mean_x, mean_y, xx, yy, xy = weighted_sums(sums, weights) / weights.sum(0)
        var_x, var_y = _exact_variance(xx - mean_x**2, x, weights), _exact_variance(yy - mean_y**2, y, weights)
        return np.clip(divide_or(xy - mean_x * mean_y, np.sqrt(var_x * var_y), np.nan), -1, 1)

    return WeightedMetric(rows=len(x), values=values)


@metric()
def spearman(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Pearson correlation of the ranks; equal values share their average rank."""
    grouped_sides = []
    for column in _check_real_pair(labels, predictions):
        distinct, codes = np.unique(column, return_inverse=True)
        grouped_sides.append((codes, build_group_sum(codes, len(distinct))))

    def ranks(weights: Array) -> tuple[Array, Array]:
        rank_columns = []
        for codes, count_by_code in grouped_sides:
            code_counts = count_by_code(weights)
            # relative to the mean rank, so that a constant has exactly 0
            rank_columns.append((code_counts.cumsum(0) - (code_counts + code_counts.sum(0)) / 2).take(codes, 0))
        return rank_columns[0], rank_columns[1]

    def values(weights: Array) -> Array:
        x, y = ranks(weights)
        wx, wy = weights * x, weights * y
        return np.clip(divide_or((wx * y).sum(0), np.sqrt((wx * x).sum(0) * (wy * y).sum(0)), np.nan), -1, 1)

    return WeightedMetric(rows=len(grouped_sides[0][0]), values=values)


def kendall(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Kendall's tau-b: concordant minus discordant pairs of rows, corrected for ties."""
    x, y = (np.unique(column, return_inverse=True)[1] for column in _check_real_pair(labels, predictions))
    pairs = len(x) * (len(x) - 1) // 2
    tied_x, tied_y, tied = _count_ties(x), _count_ties(y), _count_ties(x * (int(y.max()) + 1) + y)
    if tied_x == pairs or tied_y == pairs:
        return math.nan
    discordant = _count_inversions(y[np.lexsort((y, x))])  # ties in x are sorted by y, so they are not inversions
    net_concordance = pairs - tied_x - tied_y + tied - 2 * discordant
    return max(-1.0, min(1.0, net_concordance / math.sqrt(pairs - tied_x) / math.sqrt(pairs - tied_y)))


@metric()
def mse(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Mean squared error."""
    x, y = _check_real_pair(labels, predictions)
    return weighted_mean((x - y) ** 2)


@metric()
def mae(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Mean absolute error."""
    x, y = _check_real_pair(labels, predictions)
    return weighted_mean(np.abs(x - y))


@metric()
def r2(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Fraction of the label variance that the predictions explain; negative if worse than the mean, NaN if constant."""
    x, y = _check_real_pair(labels, predictions)
    scale = _scale(x)
    errors, x = (x - y) / scale, _rescale(x)
    sums = np.stack([x, x * x, errors * errors])

    # R2 = 1 - sum (x - y)^2 / sum (x - mean)^2
    def values(weights: Array) -> Array:
        mean, xx, residual = weighted_sums(sums, weights) / weights.sum(0)
        return 1 - divide_or(residual, _exact_variance(xx - mean**2, x, weights), np.nan)

    return WeightedMetric(rows=len(x), values=values)


def _check_real_pair(labels: ArrayLike, predictions: ArrayLike) -> tuple[Array, Array]:
    x, y = check_reals(labels, "labels"), check_reals(predictions, "predictions")
    check_same_rows(labels=x, predictions=y)
    return x, y


def _scale(values: Array) -> float:
    """The largest distance from the mean, so that squares neither overflow nor underflow; 1 for a constant."""
    return float(np.abs(values - values.mean()).max()) or 1.0 if (values != values[0]).any() else 1.0


def _rescale(values: Array) -> Array:
    """Center values and scale them to -1 to 1."""
    rescaled: Array = (values - values.mean()) / _scale(values)
    return rescaled


def _exact_variance(variance: Array, values: Array, weights: Array) -> Array:
    """Correct small variances of resamples, to exactly 0 if all rows are equal."""
    variance = np.maximum(variance, 0)
    for resample in np.flatnonzero(variance < 1e-8):  # may be a rounding error: recompute from the rows
        is_drawn = weights[:, resample] > 0
        drawn_values, drawn_counts = values[is_drawn], weights[is_drawn, resample]
        mean = (drawn_counts * drawn_values).sum() / drawn_counts.sum()
        variance[resample] = (drawn_counts * (drawn_values - mean) ** 2).sum() / drawn_counts.sum()
        if (drawn_values == drawn_values[0]).all():
            variance[resample] = 0
    return variance


def _count_ties(codes: Array) -> int:
    """Count pairs of rows with the same code."""
    code_counts = np.unique(codes, return_counts=True)[1]
    return int((code_counts * (code_counts - 1) // 2).sum())


def _count_inversions(codes: Array) -> int:
    """Count pairs in descending order, each at the highest bit in which its two codes differ."""
    inversions = 0
    for bit in range(int(codes.max()).bit_length()):
        order = np.argsort(codes >> (bit + 1), kind="stable")
        prefixes, bits = codes[order] >> (bit + 1), (codes[order] >> bit) & 1
        cumulative_ones = np.cumsum(bits)
        prefix_starts = np.searchsorted(prefixes, prefixes)  # start of the codes with the same upper bits
        inversions += int((cumulative_ones - cumulative_ones[prefix_starts] + bits[prefix_starts])[bits == 0].sum())
    return inversions
