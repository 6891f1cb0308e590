"""Axes: from where to where, round numbers on the way, and how these numbers are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from clearhead.explain.svg.numbers import format_exponent, typeset_minus

MIN_MAGNITUDE = 1e-30  # what is nearer to 0 is 0


@dataclass(frozen=True, kw_only=True)
class Axis:
    """From where to where, what is written on the way, and what it is about."""

    low: float
    high: float
    ticks: tuple[float, ...]
    label: str
    log: bool = False  # equal steps are equal factors

    def share(self, value: float) -> float:
        """How far along the axis a value lies, from 0 to 1."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log10(max(number, MIN_MAGNITUDE)) for number in (value, low, high))
        return min(max((value - low) / (high - low), 0.0), 1.0)


def linear_axis(values: Iterable[float], label: str, *, zero: bool = False, ticks: int = 5) -> Axis:
    """An axis with round numbers that holds all values; with `zero` it begins there."""
    numbers = [0.0, *values] if zero else list(values)
    low, high = min(numbers), max(numbers)
    largest = max(abs(low), abs(high))
    if high - low <= largest * 1e-9 or largest < MIN_MAGNITUDE:  # one value, as far as a picture can tell
        reach = largest * 0.1 if largest >= MIN_MAGNITUDE else 1.0
        low, high = (low if zero else low - reach), high + reach
    step = _round_step((high - low) / ticks)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    marks = tuple(index * step for index in range(first, last + 1))
    return Axis(low=marks[0], high=marks[-1], ticks=marks, label=label)


def log_axis(values: Iterable[float], label: str) -> Axis:
    """From one power of ten to another, such that all values (above 0) lie between them."""
    logs = [math.log10(max(value, MIN_MAGNITUDE)) for value in values]
    low, high = math.floor(min(logs) + 1e-9), math.ceil(max(logs) - 1e-9)
    high = max(high, low + 1)
    stride = -(-(high - low) // 6)
    ticks = tuple(10.0**power for power in range(low, high + 1, stride))
    return Axis(low=10.0**low, high=10.0**high, ticks=ticks, label=label, log=True)


def unit_axis(label: str) -> Axis:
    """From 0 to 1."""
    return Axis(low=0.0, high=1.0, ticks=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0), label=label)


def index_axis(first: float, last: float, label: str) -> Axis:
    """From the first to the last of things that are counted, with round numbers where they fall."""
    if first == last:
        return Axis(low=first - 1, high=first + 1, ticks=(first,), label=label)
    step = max(_round_step((last - first) / 5), 1.0)
    ticks = [index * step for index in range(math.ceil(first / step), math.floor(last / step) + 1)]
    return Axis(low=first, high=last, ticks=tuple(ticks), label=label)


def index_ticks(count: int) -> list[int]:
    """A few of the rows or columns of a table, powers of two apart."""
    step = next(step for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1 << 20) if count / step <= 9)
    return list(range(0, count, step))


def _round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(times * power for times in (1.0, 2.0, 5.0, 10.0) if times * power >= rough * (1 - 1e-9))


def format_tick(value: float, ticks: Sequence[float]) -> str:
    """A number at an axis, with the digits that tell it from its neighbors."""
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
