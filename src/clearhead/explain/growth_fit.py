"""How a time grows with a length: the power that fits, how well it fits, and whether the repeats resolve it."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RESAMPLES = 200  # resamples of the repeats; their seed is fixed, so that the same times give the same numbers
MAX_INTERVAL_WIDTH = 0.5  # an interval of the power that is wider than this resolves nothing
MIN_R2 = 0.95  # of a time that grows; one that does not grow fits no line
FLAT_POWER = 0.3  # a power below which a time hardly grows; no layer becomes faster by more than this
MIN_LENGTHS = 3  # two lie on a line whatever they are
MAX_CROSSING_RATIO = 2.0  # the largest factor between the ends of the interval of a crossing

Samples = Mapping[int, Sequence[float]]  # length to milliseconds of each repeat


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The power of n that a time grows with, its interval of about 95 %, and the quality of the fit."""

    power: float | None  # None: not resolved
    low: float | None = None
    high: float | None = None
    r2: float | None = None
    spread: float | None = None  # of the repeats: half of the middle half's range, as a share of the median
    reason: str | None = None  # it is not resolved

    @property
    def label(self) -> str:
        """The power alone, as a cell of a table."""
        return "unresolved" if self.power is None else f"n^{self.power:.2f}"

    def __str__(self) -> str:
        if self.power is None:
            return f"not resolved: {self.reason}"
        quality = f"({self.low:.2f} to {self.high:.2f}), R² {self.r2:.3f}, repeats spread by {self.spread:.0%}"
        return f"n^{self.power:.2f} {quality}"


def fit_growth(samples: Samples) -> Growth:
    """The slope of the logarithms of the medians; refused where repeats or lengths disagree too much.

    The interval joins what resampling the repeats changes and the standard error of the line.
    """
    lengths = sorted(samples)
    if len(lengths) < MIN_LENGTHS:
        return Growth(power=None, reason="a growth needs at least three lengths")
    power: float | None
    power, r2, error = _fit_line(lengths, [statistics.median(samples[length]) for length in lengths])
    draws = sorted(
        _fit_line(lengths, [statistics.median(draw) for draw in drawn])[0] for drawn in _resample(samples, lengths)
    )
    low = power - math.hypot(power - _quantile(draws, 0.025), 2 * error)
    high = power + math.hypot(_quantile(draws, 0.975) - power, 2 * error)
    spread = max(_relative_spread(samples[length]) for length in lengths)
    why = None
    if high - low > MAX_INTERVAL_WIDTH:
        why = f"its power lies anywhere from {low:.1f} to {high:.1f}"
    elif power < -FLAT_POWER:
        why = f"the times fall with n (n^{power:.2f}), so that something else took its share of the machine"
    elif power > FLAT_POWER and r2 < MIN_R2:
        why = f"the times follow no power of n (R² {r2:.2f})"
    if why is not None:
        power, why = None, f"{why}; repeats spread by {spread:.0%}"
    return Growth(power=power, low=low, high=high, r2=r2, spread=spread, reason=why)


def estimate_crossing_interval(first: Samples, second: Samples) -> tuple[float | None, float | None, bool]:
    """Where the first becomes the slower one, from when to when, and whether the repeats agree on it."""
    lengths = sorted(first)
    resampled = zip(_resample(first, lengths), _resample(second, lengths, seed=1), strict=True)
    crossings = [
        find_crossing(lengths, [statistics.median(a) for a in first_draw], [statistics.median(b) for b in second_draw])
        for first_draw, second_draw in resampled
    ]
    lengths_found = sorted(length for length, _ in crossings if length is not None)
    # a few resamples may differ: the interval leaves out one in forty on either side
    if len(lengths_found) < 0.025 * len(crossings):
        begins = [earlier for _, earlier in crossings]
        return None, None, max(begins.count(True), begins.count(False)) >= 0.95 * len(begins)
    if len(lengths_found) < 0.95 * len(crossings):
        return lengths_found[0], lengths_found[-1], False
    low, high = _quantile(lengths_found, 0.025), _quantile(lengths_found, 0.975)
    return low, high, high <= MAX_CROSSING_RATIO * low


def find_crossing(lengths: Sequence[int], first: Sequence[float], second: Sequence[float]) -> tuple[float | None, bool]:
    """The length from which on the first is no longer the faster one, and whether it is so at the smallest length."""
    # how much slower the first is, as a logarithm: below 0 while it is the faster one
    behind = [math.log(a / b) for a, b in zip(first, second, strict=True)]
    for index in range(1, len(lengths)):
        if behind[index - 1] < 0 <= behind[index]:
            share = behind[index - 1] / (behind[index - 1] - behind[index])
            begin, end = math.log(lengths[index - 1]), math.log(lengths[index])
            return math.exp(begin + share * (end - begin)), True
    return None, behind[0] < 0


def _fit_line(lengths: Sequence[int], times: Sequence[float]) -> tuple[float, float, float]:
    """Slope, R² and the slope's standard error of the straight line through the logarithms."""
    x, y = [math.log(length) for length in lengths], [math.log(time) for time in times]
    slope, begin = statistics.linear_regression(x, y)
    residual = sum((b - begin - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    middle_x, middle_y = statistics.fmean(x), statistics.fmean(y)
    total = sum((b - middle_y) ** 2 for b in y)
    across = sum((a - middle_x) ** 2 for a in x)
    error = math.sqrt(residual / (len(x) - 2) / across)
    return slope, 1 - residual / total if total > 0 else 1.0, error


def _resample(samples: Samples, lengths: Sequence[int], seed: int = 0) -> list[list[list[float]]]:
    draw = random.Random(seed)
    return [[draw.choices(samples[length], k=len(samples[length])) for length in lengths] for _ in range(RESAMPLES)]


def _relative_spread(samples: Sequence[float]) -> float:
    if len(samples) < 2:
        return 0.0
    first, middle, third = statistics.quantiles(samples, n=4, method="inclusive")
    return (third - first) / 2 / middle


def _quantile(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
