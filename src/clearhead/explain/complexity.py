"""Time self-attention, recurrence and convolution over length and width, and compare with their complexity."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clearhead.deprecation import renamed_fields
from clearhead.errors import InputError
from clearhead.explain.growth_fit import MIN_LENGTHS, Growth, estimate_crossing_interval, find_crossing, fit_growth
from clearhead.explain.growth_picture import save_growth
from clearhead.html import render_table, short_repr
from clearhead.model.loading import require_torch
from clearhead.progress import KnownCountCallback, from_counts

LENGTHS = (32, 64, 128, 256, 512, 1024, 2048)
WIDTHS = (128, 256, 512)
KERNEL = 3
MAX_ROUNDS = 4  # further rounds, while a growth or crossing is unresolved
REPEATS = 5  # the minimum: single measurements are too noisy
MAX_VALUES = {"lengths": 32_768, "widths": 8192, "kernel": 255, "repeats": 1000}
MAX_SIZES = 32
Times = Mapping[tuple[str, int, int], Sequence[float]]
TIMES_TITLE = "milliseconds, by width d and length n"


@dataclass(frozen=True, kw_only=True)
class LayerKind:
    """A row of the complexity table of the Transformer paper."""

    name: str
    title: str
    cost: str  # of one layer over n tokens of width d
    steps: str  # sequential operations
    path: str  # maximum path length between two tokens
    operations: Callable[[int, int, int], int]  # multiply-adds by (length, width, kernel)


LAYER_KINDS = (
    LayerKind(
        name="attention",
        title="self-attention",
        cost="n² d",
        steps="1",
        path="1",
        operations=lambda n, d, _: 2 * n * n * d,
    ),
    LayerKind(
        name="projected",
        title="with W_Q … W_O",
        cost="n² d + n d²",
        steps="1",
        path="1",
        operations=lambda n, d, _: 2 * n * n * d + 4 * n * d * d,
    ),
    LayerKind(
        name="recurrent", title="recurrent", cost="n d²", steps="n", path="n", operations=lambda n, d, _: 2 * n * d * d
    ),
    LayerKind(
        name="convolution",
        title="convolution",
        cost="k n d²",
        steps="1",
        path="log_k n",
        operations=lambda n, d, k: k * n * d * d,
    ),
)


@dataclass(frozen=True, kw_only=True)
class LayerTiming:
    """Times of one layer at one length and width: median, fastest and slowest."""

    layer: str
    length: int
    width: int
    ms: float
    fastest_ms: float
    slowest_ms: float
    samples_ms: tuple[float, ...] = ()  # every repeat

    @property
    def repeats_ms(self) -> tuple[float, ...]:
        """All samples, or their summary if the samples are missing."""
        return self.samples_ms or (self.fastest_ms, self.ms, self.slowest_ms)


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """The length at which self-attention becomes slower than recurrence."""

    width: int
    length: float | None  # None: outside the measured lengths, or not resolved
    attention_first: bool  # whether self-attention is faster at the smallest length
    low: float | None = None  # interval of the length, about 95%
    high: float | None = None
    resolved: bool = True  # whether the samples agree

    def describe(self, lengths: Sequence[int]) -> str:
        """Describe the crossover in one line."""
        if not self.resolved:
            interval = "" if self.low is None else f" (between {self.low:,.0f} and {self.high:,.0f})"
            return f"width {self.width:,}: the crossover is not resolved{interval}"
        if self.length is not None:
            ratio = self.length / self.width
            return f"width {self.width:,}: self-attention is faster up to n ≈ {self.length:,.0f} ({ratio:.1f} d)"
        if self.attention_first:
            return f"width {self.width:,}: self-attention is faster at every length up to {max(lengths):,}"
        return f"width {self.width:,}: recurrence is faster already at length {min(lengths):,}"


@renamed_fields(lecture="cost_table")
@dataclass(frozen=True, kw_only=True)
class Complexity:
    """Measured times with growth and crossovers."""

    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    kernel: int
    repeats: int
    threads: int
    measured: tuple[LayerTiming, ...]
    crossovers: tuple[Crossover, ...]
    rounds: int = 1  # of `repeats` samples each

    def ms(self, layer: str, width: int) -> list[float]:
        """Return the times of a layer at one width by length."""
        return [timing.ms for timing in self.measured if timing.layer == layer and timing.width == width]

    def fit(self, layer: str) -> Growth:
        """Fit the growth of the time with n over the larger lengths at the largest width."""
        upper = self.lengths[-max(MIN_LENGTHS, len(self.lengths) - len(self.lengths) // 2) :]
        timings = (timing for timing in self.measured if timing.layer == layer and timing.width == self.widths[-1])
        return fit_growth({timing.length: timing.repeats_ms for timing in timings if timing.length in upper})

    def growth(self, layer: str) -> float | None:
        """Return the exponent of n, or None if not resolved."""
        return self.fit(layer).power

    @property
    def resolved(self) -> bool:
        """Whether every growth and crossover is resolved."""
        fitted = len(self.lengths) < MIN_LENGTHS or all(self.growth(kind.name) is not None for kind in LAYER_KINDS)
        return fitted and all(crossing.resolved for crossing in self.crossovers)

    def __repr__(self) -> str:
        lengths, widths = (f"{min(sizes):,} to {max(sizes):,}" for sizes in (self.lengths, self.widths))
        return short_repr("Complexity", self.title, f"lengths {lengths}", f"widths {widths}")

    @property
    def title(self) -> str:
        """The measurement settings in one line."""
        rounds = f" x {self.rounds}" if self.rounds > 1 else ""
        settings = f"kernel {self.kernel}, threads: {self.threads}, repeats: {self.repeats}{rounds}"
        return f"Forward pass of one layer on one text; {settings}"

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows: milliseconds by width and length."""
        columns = ["d", "n", *(kind.title for kind in LAYER_KINDS)]
        rows = []
        for width in self.widths:
            times = [self.ms(kind.name, width) for kind in LAYER_KINDS]
            rows += [
                [f"{width:,}", f"{length:,}", *(f"{row[index]:,.3f}" for row in times)]
                for index, length in enumerate(self.lengths)
            ]
        return columns, rows

    def cost_table(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows: the complexity of each layer with its measured growth."""
        columns = ["layer", "cost", "sequential steps", "longest path", "measured"]
        rows = []
        for kind in LAYER_KINDS:
            growth = "–" if len(self.lengths) < 2 else self.fit(kind.name).label
            rows.append([kind.title, kind.cost, kind.steps, kind.path, growth])
        return columns, rows

    @property
    def notes(self) -> tuple[str, ...]:
        """Growth and crossovers in words."""
        crossings = tuple(crossing.describe(self.lengths) for crossing in self.crossovers)
        heading = f"measured: exponent of n in the growth of the time (width {self.widths[-1]:,}, larger lengths)"
        fits = tuple(f"{kind.title}: {self.fit(kind.name)}" for kind in LAYER_KINDS) if len(self.lengths) > 1 else ()
        advice = "not resolved: measure again on an idle machine, with longer texts or more repeats"
        theory = "by operation count they cross at n = d; sequential steps make recurrence slower than that"
        return heading, *fits, *crossings, *(() if self.resolved else (advice,)), theory

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as printed by `complexity --json`."""
        table = [
            {
                "layer": kind.name,
                "cost": kind.cost,
                "sequential_steps": kind.steps,
                "longest_path": kind.path,
                "growth": (fit := self.fit(kind.name)).power,
                "growth_low": fit.low,
                "growth_high": fit.high,
                "r2": fit.r2,
                "spread": fit.spread,
                "not_resolved": fit.reason,
            }
            for kind in LAYER_KINDS
        ]
        return {**asdict(self), "table": table, "resolved": self.resolved}

    def curves(self) -> list[dict[str, Any]]:
        """Return the measured and theoretical curve of each layer and width; they meet at the largest length."""
        curves = []
        for width in self.widths:
            for kind in LAYER_KINDS:
                times = self.ms(kind.name, width)
                operations = [kind.operations(length, width, self.kernel) for length in self.lengths]
                theory = [times[-1] * count / operations[-1] for count in operations]
                curves.append(
                    {
                        "width": width,
                        "layer": kind.name,
                        "title": kind.title,
                        "cost": kind.cost,
                        "lengths": self.lengths,
                        "ms": times,
                        "theory": theory,
                    }
                )
        return curves

    def save(self, path: str | Path) -> Path:
        """Write a chart to .svg, .png or .html (with the tables)."""

        tables = {self.title: self.cost_table(), TIMES_TITLE: self.table()}
        return save_growth(Path(path), self.title, self.curves(), tables, self.notes)

    def _repr_html_(self) -> str:
        return render_table(self.title, *self.cost_table()) + render_table(TIMES_TITLE, *self.table(), self.notes)


def complexity(
    lengths: Sequence[int] = LENGTHS,
    widths: Sequence[int] = WIDTHS,
    *,
    kernel: int = KERNEL,
    repeats: int = REPEATS,
    threads: int | None = None,
    progress: KnownCountCallback | None = None,
) -> Complexity:
    """Time one layer of self-attention, recurrence and convolution over sequence lengths and widths.

    The layers take turns, so that load peaks affect all of them; `progress` receives (samples, total). Unresolved
    results are measured again, up to MAX_ROUNDS rounds, and then reported as unresolved.
    """
    sizes = {"lengths": sorted(set(lengths)), "widths": sorted(set(widths)), "kernel": [kernel], "repeats": [repeats]}
    for name, values in sizes.items():
        _check_range(name, values)
    if threads is not None and not 1 <= threads <= 1024:
        raise InputError(f"threads must be from 1 to 1024, got {threads}.")
    require_torch("Timing layers")
    from clearhead.core.complexity import time_layers

    def time_round() -> tuple[Times, int]:
        return time_layers(sizes["lengths"], sizes["widths"], kernel, repeats, threads, from_counts(progress))

    return measure_until_resolved(time_round, sizes["lengths"], sizes["widths"], kernel=kernel, repeats=repeats)


def measure_until_resolved(
    time_round: Callable[[], tuple[Times, int]],
    lengths: Sequence[int],
    widths: Sequence[int],
    *,
    kernel: int = KERNEL,
    repeats: int = REPEATS,
) -> Complexity:
    """Collect rounds of times in seconds by (layer, length, width) until all results are resolved."""
    seconds: dict[tuple[str, int, int], list[float]] = {}
    for number in range(1, MAX_ROUNDS + 1):
        times, threads = time_round()
        for cell, samples in times.items():
            seconds.setdefault(cell, []).extend(samples)
        measured = tuple(
            _summarize_samples(*cell, [1e3 * sample for sample in samples]) for cell, samples in seconds.items()
        )
        complexity = Complexity(
            lengths=tuple(lengths),
            widths=tuple(widths),
            kernel=kernel,
            repeats=repeats,
            threads=threads,
            measured=measured,
            crossovers=tuple(find_crossover(measured, width) for width in widths),
            rounds=number,
        )
        if complexity.resolved:
            break
    return complexity


def _summarize_samples(layer: str, length: int, width: int, samples: Sequence[float]) -> LayerTiming:
    return LayerTiming(
        layer=layer,
        length=length,
        width=width,
        ms=statistics.median(samples),
        fastest_ms=min(samples),
        slowest_ms=max(samples),
        samples_ms=tuple(samples),
    )


def _check_range(name: str, values: Sequence[int]) -> None:
    least = REPEATS if name == "repeats" else 1
    if not values or len(values) > MAX_SIZES:
        raise InputError(f"{name} must be 1 to {MAX_SIZES} distinct numbers, got {len(values)}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_VALUES[name]:
            raise InputError(f"{name} must be from {least} to {MAX_VALUES[name]:,}, got {value}.")


def find_crossover(measured: Sequence[LayerTiming], width: int) -> Crossover:
    """Find the length at which attention becomes slower than recurrence, by log-log interpolation."""
    timings = {
        name: {timing.length: timing for timing in measured if timing.width == width and timing.layer == name}
        for name in ("attention", "recurrent")
    }
    lengths = sorted(timings["attention"])
    medians = ([timings[name][length].ms for length in lengths] for name in timings)
    crossing, first = find_crossing(lengths, *medians)
    low, high, agree = estimate_crossing_interval(
        *({length: timings[name][length].repeats_ms for length in lengths} for name in timings)
    )
    agree = agree and (crossing is None) == (low is None)
    return Crossover(
        width=width, length=crossing if agree else None, attention_first=first, low=low, high=high, resolved=agree
    )
