"""How well numbers follow numbers: three correlations, two errors, and the share of variance explained.

Where a side never varies (one row included) a correlation is undefined, and NaN comes back, as from scipy.
"""

from __future__ import annotations

import math

import numpy as np

from clearhead.metrics.checks import Array, ArrayLike, check_reals, check_same_rows
from clearhead.metrics.weights import WeightedMetric, build_group_sum, divide_or, metric, weighted_mean, weighted_sums


@metric()
def pearson(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Linear correlation, -1 to 1."""
    x, y = (_rescale(side) for side in _two_reals(labels, predictions))
    sums = np.stack([x, y, x * x, y * y, x * y])

    # r = cov(x, y) / sqrt(var(x) var(y))
    def values(weights: Array) -> Array:
        mean_x, mean_y, xx, yy, xy = weighted_sums(sums, weights) / weights.sum(0)
        spread_x, spread_y = _exact_variance(xx - mean_x**2, x, weights), _exact_variance(yy - mean_y**2, y, weights)
        return np.clip(divide_or(xy - mean_x * mean_y, np.sqrt(spread_x * spread_y), np.nan), -1, 1)

    return WeightedMetric(rows=len(x), values=values)


@metric()
def spearman(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Pearson correlation of the ranks; equal values share their average rank."""
    sides = []
    for side in _two_reals(labels, predictions):
        distinct, codes = np.unique(side, return_inverse=True)
        sides.append((codes, build_group_sum(codes, len(distinct))))

    def ranks(weights: Array) -> tuple[Array, Array]:
        made = []
        for codes, sums in sides:
            count = sums(weights)
            # counted from the mean rank, so that a constant has exactly 0
            made.append((count.cumsum(0) - (count + count.sum(0)) / 2).take(codes, 0))
        return made[0], made[1]

    def values(weights: Array) -> Array:
        x, y = ranks(weights)
        wx, wy = weights * x, weights * y
        return np.clip(divide_or((wx * y).sum(0), np.sqrt((wx * x).sum(0) * (wy * y).sum(0)), np.nan), -1, 1)

    return WeightedMetric(rows=len(sides[0][0]), values=values)


def kendall(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Kendall's tau-b: pairs of rows in the same order less pairs in the opposite order, corrected for ties."""
    x, y = (np.unique(side, return_inverse=True)[1] for side in _two_reals(labels, predictions))
    pairs = len(x) * (len(x) - 1) // 2
    tied_x, tied_y, tied = _count_ties(x), _count_ties(y), _count_ties(x * (int(y.max()) + 1) + y)
    if tied_x == pairs or tied_y == pairs:
        return math.nan
    against = _count_inversions(y[np.lexsort((y, x))])  # ties in x are in order of y, so they count for neither
    surplus = pairs - tied_x - tied_y + tied - 2 * against
    return max(-1.0, min(1.0, surplus / math.sqrt(pairs - tied_x) / math.sqrt(pairs - tied_y)))


@metric()
def mse(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Mean squared error."""
    x, y = _two_reals(labels, predictions)
    return weighted_mean((x - y) ** 2)


@metric()
def mae(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Mean absolute error."""
    x, y = _two_reals(labels, predictions)
    return weighted_mean(np.abs(x - y))


@metric()
def r2(labels: ArrayLike, predictions: ArrayLike) -> WeightedMetric:
    """Share of the labels' variance that the predictions explain; below 0 is worse than the mean, NaN if constant."""
    x, y = _two_reals(labels, predictions)
    scale = _scale(x)
    off, x = (x - y) / scale, _rescale(x)
    sums = np.stack([x, x * x, off * off])

    # R2 = 1 - sum (x - y)^2 / sum (x - mean)^2
    def values(weights: Array) -> Array:
        mean, xx, left = weighted_sums(sums, weights) / weights.sum(0)
        return 1 - divide_or(left, _exact_variance(xx - mean**2, x, weights), np.nan)

    return WeightedMetric(rows=len(x), values=values)


def _two_reals(labels: ArrayLike, predictions: ArrayLike) -> tuple[Array, Array]:
    x, y = check_reals(labels, "labels"), check_reals(predictions, "predictions")
    check_same_rows(labels=x, predictions=y)
    return x, y


def _scale(side: Array) -> float:
    """The largest distance from the mean, so that squares neither overflow nor vanish; 1 for a constant."""
    return float(np.abs(side - side.mean()).max()) or 1.0 if (side != side[0]).any() else 1.0


def _rescale(side: Array) -> Array:
    """Around 0 and within -1 to 1."""
    made: Array = (side - side.mean()) / _scale(side)
    return made


def _exact_variance(spread: Array, side: Array, weights: Array) -> Array:
    """The variance of each resample, exactly 0 where all its rows are equal."""
    spread = np.maximum(spread, 0)
    for column in np.flatnonzero(spread < 1e-8):  # rounding could leave a little: look at the rows themselves
        drawn = side[weights[:, column] > 0]
        count = weights[weights[:, column] > 0, column]
        spread[column] = (count * (drawn - (count * drawn).sum() / count.sum()) ** 2).sum() / count.sum()
        if (drawn == drawn[0]).all():
            spread[column] = 0
    return spread


def _count_ties(codes: Array) -> int:
    """Pairs of rows with the same code."""
    count = np.unique(codes, return_counts=True)[1]
    return int((count * (count - 1) // 2).sum())


def _count_inversions(codes: Array) -> int:
    """Pairs that stand in falling order: each is found at the first bit in which its two codes differ."""
    found = 0
    for bit in range(int(codes.max()).bit_length()):
        order = np.argsort(codes >> (bit + 1), kind="stable")
        prefix, one = codes[order] >> (bit + 1), (codes[order] >> bit) & 1
        ones = np.cumsum(one)
        first = np.searchsorted(prefix, prefix)  # where the codes with the same upper bits begin
        found += int((ones - ones[first] + one[first])[one == 0].sum())
    return found
