"""Fit how time grows with length: exponent, interval, quality of fit, and whether the samples resolve it."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RESAMPLES = 200  # bootstrap resamples, with a fixed seed so that equal times give equal results
MAX_INTERVAL_WIDTH = 0.5  # wider intervals of the exponent count as unresolved
MIN_R2 = 0.95  # of growing times; constant times fit no line
FLAT_POWER = 0.3  # exponents up to this count as constant; below its negative, the times are disturbed
MIN_LENGTHS = 3  # two points always fit a line
MAX_CROSSING_RATIO = 2.0  # largest ratio of the interval bounds of a crossing

Samples = Mapping[int, Sequence[float]]  # length to milliseconds of each repeat


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The exponent of n, its interval (about 95%), and the quality of the fit."""

    power: float | None  # None: not resolved
    low: float | None = None
    high: float | None = None
    r2: float | None = None
    spread: float | None = None  # half the interquartile range of the samples, relative to the median
    reason: str | None = None  # why the exponent is not resolved

    @property
    def label(self) -> str:
        """The exponent as a table cell."""
        return "unresolved" if self.power is None else f"n^{self.power:.2f}"

    def __str__(self) -> str:
        if self.power is None:
            return f"not resolved: {self.reason}"
        quality = f"({self.low:.2f} to {self.high:.2f}), R² {self.r2:.3f}, repeats spread by {self.spread:.0%}"
        return f"n^{self.power:.2f} {quality}"


def fit_growth(samples: Samples) -> Growth:
    """Fit the slope of the log medians; unresolved if samples or lengths disagree too much.

    The interval combines the bootstrap over the samples with the standard error of the line.
    """
    lengths = sorted(samples)
    if len(lengths) < MIN_LENGTHS:
        return Growth(power=None, reason="at least three lengths are needed")
    power: float | None
    power, r2, error = _fit_line(lengths, [statistics.median(samples[length]) for length in lengths])
    powers = sorted(
        _fit_line(lengths, [statistics.median(samples_of_length) for samples_of_length in resample])[0]
        for resample in _resample(samples, lengths)
    )
    low = power - math.hypot(power - _quantile(powers, 0.025), 2 * error)
    high = power + math.hypot(_quantile(powers, 0.975) - power, 2 * error)
    spread = max(_relative_spread(samples[length]) for length in lengths)
    reason = None
    if high - low > MAX_INTERVAL_WIDTH:
        reason = f"the exponent could be anywhere from {low:.1f} to {high:.1f}"
    elif power < -FLAT_POWER:
        reason = f"the times fall with n (n^{power:.2f}), probably because of other load on the machine"
    elif power > FLAT_POWER and r2 < MIN_R2:
        reason = f"the times follow no power of n (R² {r2:.2f})"
    if reason is not None:
        power, reason = None, f"{reason}; repeats spread by {spread:.0%}"
    return Growth(power=power, low=low, high=high, r2=r2, spread=spread, reason=reason)


def estimate_crossing_interval(first: Samples, second: Samples) -> tuple[float | None, float | None, bool]:
    """Return the interval of the length at which the first becomes slower, and whether the samples agree on it."""
    lengths = sorted(first)
    resampled = zip(_resample(first, lengths), _resample(second, lengths, seed=1), strict=True)
    crossings = [
        find_crossing(lengths, [statistics.median(a) for a in first_draw], [statistics.median(b) for b in second_draw])
        for first_draw, second_draw in resampled
    ]
    lengths_found = sorted(length for length, _ in crossings if length is not None)
    # the interval leaves out 2.5% of the resamples on either side
    if len(lengths_found) < 0.025 * len(crossings):
        first_leads = [leads for _, leads in crossings]
        return None, None, max(first_leads.count(True), first_leads.count(False)) >= 0.95 * len(first_leads)
    if len(lengths_found) < 0.95 * len(crossings):
        return lengths_found[0], lengths_found[-1], False
    low, high = _quantile(lengths_found, 0.025), _quantile(lengths_found, 0.975)
    return low, high, high <= MAX_CROSSING_RATIO * low


def find_crossing(lengths: Sequence[int], first: Sequence[float], second: Sequence[float]) -> tuple[float | None, bool]:
    """Return the length at which the first becomes slower, and whether it is faster at the smallest length."""
    # log ratio of the times: negative while the first is faster
    log_ratios = [math.log(a / b) for a, b in zip(first, second, strict=True)]
    for index in range(1, len(lengths)):
        if log_ratios[index - 1] < 0 <= log_ratios[index]:
            fraction = log_ratios[index - 1] / (log_ratios[index - 1] - log_ratios[index])
            start, end = math.log(lengths[index - 1]), math.log(lengths[index])
            return math.exp(start + fraction * (end - start)), True
    return None, log_ratios[0] < 0


def _fit_line(lengths: Sequence[int], times: Sequence[float]) -> tuple[float, float, float]:
    """Return slope, R² and standard error of the slope of a log-log line."""
    x, y = [math.log(length) for length in lengths], [math.log(time) for time in times]
    slope, intercept = statistics.linear_regression(x, y)
    residual = sum((b - intercept - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    y_variation = sum((b - mean_y) ** 2 for b in y)
    x_variation = sum((a - mean_x) ** 2 for a in x)
    error = math.sqrt(residual / (len(x) - 2) / x_variation)
    return slope, 1 - residual / y_variation if y_variation > 0 else 1.0, error


def _resample(samples: Samples, lengths: Sequence[int], seed: int = 0) -> list[list[list[float]]]:
    generator = random.Random(seed)
    return [
        [generator.choices(samples[length], k=len(samples[length])) for length in lengths] for _ in range(RESAMPLES)
    ]


def _relative_spread(samples: Sequence[float]) -> float:
    if len(samples) < 2:
        return 0.0
    first, middle, third = statistics.quantiles(samples, n=4, method="inclusive")
    return (third - first) / 2 / middle


def _quantile(ordered: Sequence[float], fraction: float) -> float:
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
