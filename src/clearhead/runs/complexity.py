"""Self-attention, recurrence and convolution timed over length and width, beside what the lecture's table says."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clearhead.errors import InputError
from clearhead.loading import need_torch
from clearhead.notebook import table_html

LENGTHS = (32, 64, 128, 256, 512, 1024, 2048)
WIDTHS = (128, 256, 512)
KERNEL = 3
REPEATS = 5  # and never fewer: one repeat tells more of the machine's mood than of the layer
MOST = {"lengths": 32_768, "widths": 8192, "kernel": 255, "repeats": 1000}
MOST_SIZES = 32
MS = "milliseconds, by width d and length n"


@dataclass(frozen=True, kw_only=True)
class LayerKind:
    """A row of the lecture's table."""

    name: str
    title: str
    cost: str  # of one layer over n words of width d
    steps: str  # that cannot be done at once
    path: str  # the longest way from one word to another
    operations: Callable[[int, int, int], int]  # products and sums, of length, width and kernel


KINDS = (
    LayerKind(name="attention", title="self-attention", cost="n² d", steps="1", path="1",
              operations=lambda n, d, _: 2 * n * n * d),
    LayerKind(name="projected", title="with W_Q … W_O", cost="n² d + n d²", steps="1", path="1",
              operations=lambda n, d, _: 2 * n * n * d + 4 * n * d * d),
    LayerKind(name="recurrent", title="recurrent", cost="n d²", steps="n", path="n",
              operations=lambda n, d, _: 2 * n * d * d),
    LayerKind(name="convolution", title="convolution", cost="k n d²", steps="1", path="log_k n",
              operations=lambda n, d, k: k * n * d * d),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One layer at one length and width: the median of its repeats, with the fastest and the slowest."""

    layer: str
    length: int
    width: int
    ms: float
    fastest_ms: float
    slowest_ms: float


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """From which length on self-attention takes longer than recurrence."""

    width: int
    length: float | None  # None: it is not among those that were measured
    attention_first: bool  # whether self-attention is the faster one at the smallest length

    def said(self, lengths: Sequence[int]) -> str:
        """In words."""
        if self.length is not None:
            share = self.length / self.width
            return f"width {self.width:,}: self-attention is faster up to n ≈ {self.length:,.0f} ({share:.1f} d)"
        if self.attention_first:
            return f"width {self.width:,}: self-attention is faster at every length up to {max(lengths):,}"
        return f"width {self.width:,}: recurrence is faster already at length {min(lengths):,}"


@dataclass(frozen=True, kw_only=True)
class Complexity:
    """What was measured."""

    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    kernel: int
    repeats: int
    threads: int
    measured: tuple[Timed, ...]
    crossovers: tuple[Crossover, ...]

    def ms(self, layer: str, width: int) -> list[float]:
        """The times of one layer at one width, over the lengths."""
        return [one.ms for one in self.measured if one.layer == layer and one.width == width]

    def growth(self, layer: str) -> float | None:
        """The power of n that the time grows with: the upper half of the lengths, at the largest width."""
        upper = self.lengths[len(self.lengths) // 2 :] if len(self.lengths) > 3 else self.lengths
        times = self.ms(layer, self.widths[-1])[-len(upper) :]
        return _slope(upper, times)

    @property
    def title(self) -> str:
        """What was measured, in one line."""
        return f"One layer, one text, forward; kernel {self.kernel}, threads: {self.threads}, repeats: {self.repeats}"

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Names of columns and rows: milliseconds by width and length."""
        columns = ["d", "n", *(kind.title for kind in KINDS)]
        rows = []
        for width in self.widths:
            times = [self.ms(kind.name, width) for kind in KINDS]
            rows += [[f"{width:,}", f"{length:,}", *(f"{each[place]:,.3f}" for each in times)]
                     for place, length in enumerate(self.lengths)]  # fmt: skip
        return columns, rows

    def lecture(self) -> tuple[list[str], list[list[str]]]:
        """The lecture's table, with the growth that was measured beside it."""
        columns = ["layer", "cost per layer", "sequential steps", "longest path", "measured"]
        rows = []
        for kind in KINDS:
            power = self.growth(kind.name)
            said = "–" if power is None else f"n^{power:.2f}"
            rows.append([kind.title, kind.cost, kind.steps, kind.path, said])
        return columns, rows

    @property
    def notes(self) -> tuple[str, ...]:
        """Where the two cross, measured and counted."""
        found = tuple(one.said(self.lengths) for one in self.crossovers)
        grown = f"measured: the power of n that the time grows with (width {self.widths[-1]:,}, the larger lengths)"
        return grown, *found, "by operations alone they cross at n = d; one word after the other costs the rest"

    def to_json(self) -> dict[str, Any]:
        """What `complexity --json` prints."""
        table = [{"layer": kind.name, "cost": kind.cost, "sequential_steps": kind.steps, "longest_path": kind.path,
                  "growth": self.growth(kind.name)} for kind in KINDS]  # fmt: skip
        return {**asdict(self), "table": table}

    def curves(self) -> list[dict[str, Any]]:
        """For a picture: of each width, each layer's times and the growth of its cost through the last of them."""
        made = []
        for width in self.widths:
            for kind in KINDS:
                times = self.ms(kind.name, width)
                counted = [kind.operations(length, width, self.kernel) for length in self.lengths]
                theory = [times[-1] * one / counted[-1] for one in counted]
                made.append({"width": width, "layer": kind.name, "title": kind.title, "cost": kind.cost,
                             "lengths": self.lengths, "ms": times, "theory": theory})  # fmt: skip
        return made

    def save(self, path: str | Path) -> Path:
        """Draw it: .svg, .png, or .html with the tables."""
        from clearhead.report.growth import save_growth

        tables = {self.title: self.lecture(), MS: self.table()}
        return save_growth(Path(path), self.title, self.curves(), tables, self.notes)

    def _repr_html_(self) -> str:
        return table_html(self.title, *self.lecture()) + table_html(MS, *self.table(), self.notes)


def complexity(
    lengths: Sequence[int] = LENGTHS,
    widths: Sequence[int] = WIDTHS,
    *,
    kernel: int = KERNEL,
    repeats: int = REPEATS,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Complexity:
    """Time one layer of self-attention, recurrence and convolution over lengths and widths of a text.

    All take turns, so that a busy moment of the machine meets each of them; `progress` is told (samples taken, in all).
    """
    asked = {"lengths": sorted(set(lengths)), "widths": sorted(set(widths)), "kernel": [kernel], "repeats": [repeats]}
    for name, values in asked.items():
        _check(name, values)
    if threads is not None and not 1 <= threads <= 1024:
        raise InputError(f"threads must be from 1 to 1024, and it is {threads}.")
    need_torch("Timing layers")
    from clearhead.core.complexity import time_layers

    seconds, used = time_layers(asked["lengths"], asked["widths"], kernel, repeats, threads, progress)
    measured = tuple(
        Timed(layer=layer, length=length, width=width, ms=1e3 * statistics.median(samples),
              fastest_ms=1e3 * min(samples), slowest_ms=1e3 * max(samples))
        for (layer, length, width), samples in seconds.items()
    )  # fmt: skip
    return Complexity(
        lengths=tuple(asked["lengths"]),
        widths=tuple(asked["widths"]),
        kernel=kernel,
        repeats=repeats,
        threads=used,
        measured=measured,
        crossovers=tuple(crossover(measured, width) for width in asked["widths"]),
    )


def _check(name: str, values: Sequence[int]) -> None:
    least = REPEATS if name == "repeats" else 1
    if not values or len(values) > MOST_SIZES:
        raise InputError(f"{name} must be 1 to {MOST_SIZES} different numbers, and there are {len(values)}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST[name]:
            raise InputError(f"{name} must be from {least} to {MOST[name]:,}, and one is {value}.")


def crossover(measured: Sequence[Timed], width: int) -> Crossover:
    """The length from which on attention is no longer the faster one, on a straight line of logarithms."""
    times: Mapping[tuple[str, int], float] = {(one.layer, one.length): one.ms for one in measured if one.width == width}
    lengths = sorted({length for _, length in times})
    # how much slower attention is, as a logarithm: below 0 while it is the faster one
    behind = [math.log(times["attention", length] / times["recurrent", length]) for length in lengths]
    for place in range(1, len(lengths)):
        if behind[place - 1] < 0 <= behind[place]:
            share = behind[place - 1] / (behind[place - 1] - behind[place])
            first, last = math.log(lengths[place - 1]), math.log(lengths[place])
            return Crossover(width=width, length=math.exp(first + share * (last - first)), attention_first=True)
    return Crossover(width=width, length=None, attention_first=behind[0] < 0)


def _slope(lengths: Sequence[int], times: Sequence[float]) -> float | None:
    """Of the straight line that fits the logarithms best."""
    if len(lengths) < 2:
        return None
    x, y = [math.log(one) for one in lengths], [math.log(one) for one in times]
    return statistics.linear_regression(x, y).slope
