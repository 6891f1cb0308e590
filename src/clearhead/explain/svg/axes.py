"""Axes with round ticks and their labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from clearhead.explain.svg.numbers import format_exponent, typeset_minus

MIN_MAGNITUDE = 1e-30  # smaller magnitudes count as 0


@dataclass(frozen=True, kw_only=True)
class Axis:
    """The range, ticks and label of an axis."""

    low: float
    high: float
    ticks: tuple[float, ...]
    label: str
    log: bool = False  # logarithmic

    def fraction(self, value: float) -> float:
        """Return the position of a value along the axis, from 0 to 1."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log10(max(number, MIN_MAGNITUDE)) for number in (value, low, high))
        return min(max((value - low) / (high - low), 0.0), 1.0)


def linear_axis(values: Iterable[float], label: str, *, zero: bool = False, ticks: int = 5) -> Axis:
    """Return an axis with round ticks that contains all values, and 0 with `zero`."""
    bounds = [0.0, *values] if zero else list(values)
    low, high = min(bounds), max(bounds)
    largest = max(abs(low), abs(high))
    if high - low <= largest * 1e-9 or largest < MIN_MAGNITUDE:  # practically a single value
        margin = largest * 0.1 if largest >= MIN_MAGNITUDE else 1.0
        low, high = (low if zero else low - margin), high + margin
    step = _round_step((high - low) / ticks)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    tick_values = tuple(index * step for index in range(first, last + 1))
    return Axis(low=tick_values[0], high=tick_values[-1], ticks=tick_values, label=label)


def log_axis(values: Iterable[float], label: str) -> Axis:
    """Return a logarithmic axis between powers of ten that contains all values (above 0)."""
    logs = [math.log10(max(value, MIN_MAGNITUDE)) for value in values]
    low, high = math.floor(min(logs) + 1e-9), math.ceil(max(logs) - 1e-9)
    high = max(high, low + 1)
    stride = -(-(high - low) // 6)
    ticks = tuple(10.0**power for power in range(low, high + 1, stride))
    return Axis(low=10.0**low, high=10.0**high, ticks=ticks, label=label, log=True)


def unit_axis(label: str) -> Axis:
    """Return an axis from 0 to 1."""
    return Axis(low=0.0, high=1.0, ticks=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0), label=label)


def index_axis(first: float, last: float, label: str) -> Axis:
    """Return an axis over consecutive numbers, such as steps, with round ticks."""
    if first == last:
        return Axis(low=first - 1, high=first + 1, ticks=(first,), label=label)
    step = max(_round_step((last - first) / 5), 1.0)
    ticks = [index * step for index in range(math.ceil(first / step), math.floor(last / step) + 1)]
    return Axis(low=first, high=last, ticks=tuple(ticks), label=label)


def index_ticks(count: int) -> list[int]:
    """Return at most nine ticks of row or column indices, a power of two apart."""
    step = next(step for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1 << 20) if count / step <= 9)
    return list(range(0, count, step))


def _round_step(rough: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(times * power for times in (1.0, 2.0, 5.0, 10.0) if times * power >= rough * (1 - 1e-9))


def format_tick(value: float, ticks: Sequence[float]) -> str:
    """Format a tick with as many digits as distinguish it from its neighbors."""
    step = min((abs(b - a) for a, b in pairwise(ticks)), default=abs(value) or 1.0)
    if abs(value) < step * 1e-6:
        return "0"
    largest = max(map(abs, ticks))
    if largest < 0.01 or largest >= 1e7:
        text = format_exponent(value, 3)
    elif largest >= 10_000 and step >= 100:
        text = f"{value / 1000:g}k"
    else:
        text = f"{value:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"
    return typeset_minus(text)
