"""How long texts are: quantiles and a histogram in powers of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_BARS = 32


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How long texts are."""

    least: int
    mean: float
    median: int
    p90: int
    p99: int
    most: int
    histogram: tuple[tuple[int, int], ...]  # (up to so long, so many), in powers of two


def measure_lengths(values: Array) -> Lengths:
    """Quantiles and bars of some lengths."""
    import numpy as np

    bars: list[tuple[int, int]] = []
    upto, before = 1, 0
    while before < len(values) and len(bars) < MAX_BARS:
        count = int((values <= upto).sum())
        if count > before or bars:
            bars.append((upto, count - before))
        before, upto = count, upto * 2
    median, p90, p99 = (int(part) for part in np.quantile(values, (0.5, 0.9, 0.99), method="higher"))
    return Lengths(
        least=int(values.min()),
        mean=round(float(values.mean()), 1),
        median=median,
        p90=p90,
        p99=p99,
        most=int(values.max()),
        histogram=tuple(bars),
    )
