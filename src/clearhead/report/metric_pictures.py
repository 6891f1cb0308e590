"""Draw metric intervals, reliability, coverage and length histograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from clearhead.explain.svg import Axis, Plot, RowPlot, linear_axis, shorten, unit_axis
from clearhead.report.formatting import (
    LOWER_IS_BETTER,
    finite_number,
    format_count,
    format_figure,
    format_percent,
    format_rows,
    metric_name,
    part_name,
)

if TYPE_CHECKING:
    from clearhead.data import Lengths
    from clearhead.metrics import Bin, Interval
    from clearhead.tasks.evaluation import CoveragePoint, Evaluation

NAMES_END = 146.0  # x position where metric names end
ROW_HEIGHT, SECOND_PART_OFFSET = 27.0, 11.0  # from one metric to the next, and from its first part to its second
MAX_METRICS = 20


def draw_intervals(parts: Mapping[str, Evaluation]) -> Markup | None:
    """Draw each metric with values from -1 to 1 as a dot with its interval; None if there are none."""
    parts_shown = list(parts.items())[:2]
    first = parts_shown[0][1]
    listed = dict.fromkeys([first.main, *first.metrics])  # order of the table
    names = [name for name in listed if _is_drawable(name, first.metrics[name])][:MAX_METRICS]
    if not names or first.kind == "texts":  # translation scores go up to 100
        return None
    intervals = [
        evaluation.metrics[name] for _, evaluation in parts_shown for name in names if name in evaluation.metrics
    ]
    drawable = [interval_shown for interval_shown in intervals if _is_drawable("", interval_shown)]
    ends = [
        end
        for interval_shown in drawable
        for end in (interval_shown.value, finite_number(interval_shown.low))
        if end is not None
    ]
    score_axis = linear_axis([max(min(ends), -1.0), 1.0], "")
    height = 34 + ROW_HEIGHT * len(names) + (SECOND_PART_OFFSET * len(names) if len(parts_shown) > 1 else 0)
    summary = "; ".join(f"{metric_name(name)} {_label_interval(first.metrics[name])}" for name in names)
    description = f"On the {part_name(parts_shown[0][0])} rows: {summary}."
    plot = RowPlot("whiskers", "Metrics with their intervals", description, score_axis, height=height, left=NAMES_END)
    y = 20.0
    for name in names:
        plot.name(shorten(metric_name(name), 13.0), y)
        for index, (part, evaluation) in enumerate(parts_shown):
            interval = evaluation.metrics.get(name)
            level = y + SECOND_PART_OFFSET * index
            if interval is None or not _is_drawable(name, interval):
                continue
            kind = "chosen" if part == "dev" else "plain"
            if finite_number(interval.low) is not None and finite_number(interval.high) is not None:
                plot.whisker(interval.low, interval.high, level, kind)
            tooltip = f"{metric_name(name)} on the {part_name(part)} rows: {_label_interval(interval)}"
            plot.dot(interval.value, level, 4, kind, tooltip)
        y += ROW_HEIGHT + (SECOND_PART_OFFSET if len(parts_shown) > 1 else 0)
    return plot.svg()


def _is_drawable(name: str, interval: Interval) -> bool:
    value = finite_number(interval.value)
    return name not in LOWER_IS_BETTER and value is not None and -1 <= value <= 1


def _label_interval(interval: Interval) -> str:
    if finite_number(interval.low) is None or finite_number(interval.high) is None:
        return format_figure(interval.value)
    return f"{format_figure(interval.value)} ({format_figure(interval.low)} to {format_figure(interval.high)})"


def draw_reliability(name: str, title: str, bins: Sequence[Bin], error: float) -> Markup:
    """Draw accuracy by confidence; on the dashed line they are equal."""
    filled = [bin_ for bin_ in bins if bin_.rows and finite_number(bin_.accuracy) is not None]
    total = sum(bin_.rows for bin_ in filled) or 1
    listed = "; ".join(
        f"confidence {format_percent(b.confidence)}: accuracy {format_percent(b.accuracy)}" for b in filled
    )
    plot = Plot(
        name,
        title,
        f"Calibration error {format_figure(error)}. {listed or 'No rows'}.",
        unit_axis("confidence"),
        unit_axis("accuracy"),
    )
    plot.line([(0.0, 0.0), (1.0, 1.0)], "ideal")
    if filled:
        plot.line([(bin_.confidence, bin_.accuracy) for bin_ in filled], "curve")
    for bin_ in filled:
        tooltip = (
            f"{format_count(bin_.rows)} predictions: confidence {format_percent(bin_.confidence)}, "
            f"accuracy {format_percent(bin_.accuracy)}"
        )
        plot.dot((bin_.confidence, bin_.accuracy), 2.5 + 5 * (bin_.rows / total) ** 0.5, "curve dot", tooltip)
    return plot.svg()


def draw_coverage(name: str, points: Sequence[CoveragePoint], label: str) -> Markup:
    """Draw the accuracy when only the most confident rows are answered."""
    first, last = points[0], points[-1]
    ends = sorted((first, last), key=lambda point: point.coverage)
    summary = "; ".join(f"coverage {format_percent(p.coverage)}: accuracy {format_percent(p.accuracy)}" for p in ends)
    accuracies = [point.accuracy for point in points]
    y = linear_axis([*accuracies, 1.0], label, ticks=4)
    upright = Axis(low=y.low, high=min(y.high, 1.0), ticks=tuple(t for t in y.ticks if t <= 1.0 + 1e-9), label=label)
    plot = Plot(name, "Coverage and accuracy", f"{summary}.", unit_axis("coverage (share of rows answered)"), upright)
    plot.line([(point.coverage, point.accuracy) for point in points], "curve")
    return plot.svg()


def draw_histogram(name: str, lengths: Lengths, unit: str) -> Markup:
    """Draw a histogram of text lengths whose bin widths double."""
    bars = lengths.histogram
    description = (
        f"{unit.capitalize()} of a text: median {format_count(lengths.median)}, "
        f"90th percentile {format_count(lengths.p90)}, 99th percentile {format_count(lengths.p99)}, "
        f"maximum {format_count(lengths.most)}."
    )
    stride = -(-len(bars) // 8)
    length_axis = Axis(low=0.0, high=float(max(len(bars), 1)), ticks=(), label=f"{unit} of a text, up to")
    plot = Plot(
        name,
        f"Lengths in {unit}",
        description,
        length_axis,
        linear_axis([rows for _, rows in bars], "rows", zero=True, ticks=4),
    )
    for index, (max_length, rows) in enumerate(bars):
        plot.column(
            index, index + 1, rows, "column", f"{max_length // 2 + 1:,} to {max_length:,} {unit}: {format_rows(rows)}"
        )
        if (len(bars) - 1 - index) % stride == 0:
            plot.tick(index + 0.5, _format_length(max_length))
    return plot.svg()


def _format_length(length: int) -> str:
    """Format a bin limit in few characters: 4096, 33k, 1M."""
    for size, sign in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if length >= size * (10 if sign == "k" else 1):
            return f"{length / size:.0f}{sign}"
    return str(length)
