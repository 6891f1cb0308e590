"""Pictures of what was measured: intervals, calibration, coverage and lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from clearhead.explain.svg import Axis, Plot, RowPlot, linear_axis, shorten, unit_axis
from clearhead.report.formatting import LOWER_IS_BETTER, count, figure, known, metric_name, part_name, percent

if TYPE_CHECKING:
    from clearhead.data import Lengths
    from clearhead.metrics import Bin, Interval
    from clearhead.tasks.evaluation import CoveragePoint, Evaluation

NAMES_UNTIL = 146.0  # where the names of metrics end and their intervals begin
ROW, SECOND = 27.0, 11.0  # from one metric to the next, and from its first part to its second
MOST_METRICS = 20


def whiskers(parts: Mapping[str, Evaluation]) -> Markup | None:
    """A dot for each score that is at most 1, on a line from the low to the high end of its interval."""
    parts_shown = list(parts.items())[:2]
    first = parts_shown[0][1]
    listed = dict.fromkeys([first.main, *first.metrics])  # in the order of the table
    names = [name for name in listed if _drawable(name, first.metrics[name])][:MOST_METRICS]
    if not names or first.kind == "texts":  # of a translator's scores only one is at most 1
        return None
    intervals = [
        evaluation.metrics[name] for _, evaluation in parts_shown for name in names if name in evaluation.metrics
    ]
    drawn = [interval_shown for interval_shown in intervals if _drawable("", interval_shown)]
    ends = [
        end for interval_shown in drawn for end in (interval_shown.value, known(interval_shown.low)) if end is not None
    ]
    across = linear_axis([max(min(ends), -1.0), 1.0], "")
    height = 34 + ROW * len(names) + (SECOND * len(names) if len(parts_shown) > 1 else 0)
    summary = "; ".join(f"{metric_name(name)} {_interval_label(first.metrics[name])}" for name in names)
    description = f"On the {part_name(parts_shown[0][0])} rows: {summary}."
    plot = RowPlot("whiskers", "Metrics with their intervals", description, across, height=height, left=NAMES_UNTIL)
    y = 20.0
    for name in names:
        plot.name(shorten(metric_name(name), 13.0), y)
        for index, (part, evaluation) in enumerate(parts_shown):
            interval = evaluation.metrics.get(name)
            level = y + SECOND * index
            if interval is None or not _drawable(name, interval):
                continue
            kind = "chosen" if part == "dev" else "plain"
            if known(interval.low) is not None and known(interval.high) is not None:
                plot.whisker(interval.low, interval.high, level, kind)
            tooltip = f"{metric_name(name)} on the {part_name(part)} rows: {_interval_label(interval)}"
            plot.dot(interval.value, level, 4, kind, tooltip)
        y += ROW + (SECOND if len(parts_shown) > 1 else 0)
    return plot.svg()


def _drawable(name: str, interval: Interval) -> bool:
    value = known(interval.value)
    return name not in LOWER_IS_BETTER and value is not None and -1 <= value <= 1


def _interval_label(interval: Interval) -> str:
    if known(interval.low) is None or known(interval.high) is None:
        return figure(interval.value)
    return f"{figure(interval.value)} ({figure(interval.low)} to {figure(interval.high)})"


def reliability(name: str, title: str, bins: Sequence[Bin], error: float) -> Markup:
    """Accuracy by confidence; on the dashed line 80 % means 80 %."""
    filled = [bin_ for bin_ in bins if bin_.rows and known(bin_.accuracy) is not None]
    total = sum(bin_.rows for bin_ in filled) or 1
    listed = "; ".join(f"sure by {percent(b.confidence)}, right in {percent(b.accuracy)}" for b in filled)
    plot = Plot(
        name,
        title,
        f"Calibration error {figure(error)}. {listed or 'No rows'}.",
        unit_axis("confidence"),
        unit_axis("share that is right"),
    )
    plot.line([(0.0, 0.0), (1.0, 1.0)], "ideal")
    if filled:
        plot.line([(bin_.confidence, bin_.accuracy) for bin_ in filled], "curve")
    for bin_ in filled:
        tooltip = f"{count(bin_.rows)} answers, sure by {percent(bin_.confidence)}, right in {percent(bin_.accuracy)}"
        plot.dot((bin_.confidence, bin_.accuracy), 2.5 + 5 * (bin_.rows / total) ** 0.5, "curve dot", tooltip)
    return plot.svg()


def coverage(name: str, points: Sequence[CoveragePoint], label: str) -> Markup:
    """How many answers are right when only the surest rows are answered."""
    first, last = points[0], points[-1]
    ends = sorted((first, last), key=lambda point: point.coverage)
    summary = "; ".join(f"answering {percent(p.coverage)} of the rows, {percent(p.accuracy)} are right" for p in ends)
    accuracies = [point.accuracy for point in points]
    y = linear_axis([*accuracies, 1.0], label, ticks=4)
    upright = Axis(low=y.low, high=min(y.high, 1.0), ticks=tuple(t for t in y.ticks if t <= 1.0 + 1e-9), label=label)
    plot = Plot(name, "Coverage and accuracy", f"{summary}.", unit_axis("share of rows that are answered"), upright)
    plot.line([(point.coverage, point.accuracy) for point in points], "curve")
    return plot.svg()


def histogram(name: str, lengths: Lengths, what: str) -> Markup:
    """How many texts are how long, in bars that double in width."""
    bars = lengths.histogram
    about = (
        f"{what.capitalize()} of a text: median {count(lengths.median)}, 90% have at most {count(lengths.p90)}, "
        f"99% at most {count(lengths.p99)}, the longest has {count(lengths.most)}."
    )
    stride = -(-len(bars) // 8)
    across = Axis(low=0.0, high=float(max(len(bars), 1)), ticks=(), label=f"{what} of a text, up to")
    plot = Plot(
        name, f"Lengths in {what}", about, across, linear_axis([many for _, many in bars], "rows", zero=True, ticks=4)
    )
    for index, (upto, many) in enumerate(bars):
        plot.column(index, index + 1, many, "column", f"{upto // 2 + 1:,} to {upto:,} {what}: {many:,} rows")
        if (len(bars) - 1 - index) % stride == 0:
            plot.tick(index + 0.5, _doubled(upto))
    return plot.svg()


def _doubled(upto: int) -> str:
    """A power of two in few letters: 4096, 33k, 1M."""
    for size, sign in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if upto >= size * (10 if sign == "k" else 1):
            return f"{upto / size:.0f}{sign}"
    return str(upto)
