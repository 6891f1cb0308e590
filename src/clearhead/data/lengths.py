"""Distribution of text lengths: quantiles and a histogram in powers of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_BARS = 32


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Distribution of text lengths."""

    least: int
    mean: float
    median: int
    p90: int
    p99: int
    most: int
    histogram: tuple[tuple[int, int], ...]  # (upper bound, count), in powers of two


def measure_lengths(lengths: Array) -> Lengths:
    """Compute quantiles and a histogram of lengths."""
    import numpy as np

    bars: list[tuple[int, int]] = []
    upper, counted = 1, 0
    while counted < len(lengths) and len(bars) < MAX_BARS:
        count = int((lengths <= upper).sum())
        if count > counted or bars:
            bars.append((upper, count - counted))
        counted, upper = count, upper * 2
    median, p90, p99 = (int(quantile) for quantile in np.quantile(lengths, (0.5, 0.9, 0.99), method="higher"))
    return Lengths(
        least=int(lengths.min()),
        mean=round(float(lengths.mean()), 1),
        median=median,
        p90=p90,
        p99=p99,
        most=int(lengths.max()),
        histogram=tuple(bars),
    )
