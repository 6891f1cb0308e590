"""Compare the layers and poolings of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from clearhead.explain.svg import RowPlot, linear_axis, shorten
from clearhead.report.formatting import LOWER_IS_BETTER, finite_number, format_duration, format_figure, metric_name

MAX_ROWS = 60
NAMES_END = 168.0
ROW_HEIGHT = 19.0


def describe_sweep(choices: Sequence[Mapping[str, Any]], main: str | None) -> dict[str, Any] | None:
    """Return the template values of a sweep, best first, or None without one."""
    if not choices:
        return None
    metric = main or "score"
    sign = 1 if metric in LOWER_IS_BETTER else -1
    lines = sorted(
        choices[:MAX_ROWS], key=lambda choice: (choice["score"] is None, sign * (finite_number(choice["score"]) or 0.0))
    )
    rows = [{**line, "width": _bar_width(line["score"])} for line in lines]
    return {
        "rows": rows,
        "metric": metric_name(metric),
        "lower": metric in LOWER_IS_BETTER,
        "bars": all(row["width"] is not None for row in rows),
        "picture": _draw_sweep(rows, metric_name(metric)),
    }


def _bar_width(score: Any) -> float | None:
    """Return the bar width in percent for scores from 0 to 1, else None."""
    value = finite_number(score)
    return None if value is None or not 0 <= value <= 1 else 100 * value


def _draw_sweep(rows: Sequence[Mapping[str, Any]], metric: str) -> Markup | None:
    """Draw each choice as a dot with one standard deviation in each direction."""
    scored_rows = [row for row in rows if finite_number(row["score"]) is not None]
    if not scored_rows:
        return None
    scores = [(row["score"], finite_number(row["spread"]) or 0.0) for row in scored_rows]
    score_axis = linear_axis(
        [end for score, spread in scores for end in (score - spread, score + spread)], metric, ticks=4
    )
    height = 40 + ROW_HEIGHT * len(scored_rows)
    summary = "; ".join(f"{row['layer']} with {row['pooling']} {format_figure(row['score'])}" for row in scored_rows)
    description = f"{metric} by cross-validation: {summary}."
    plot = RowPlot(
        "swept",
        "Layers and poolings compared",
        description,
        score_axis,
        height=height,
        left=NAMES_END,
        right=18,
        top=4,
    )
    for number, (row, (score, spread)) in enumerate(zip(scored_rows, scores, strict=True)):
        y = 14 + ROW_HEIGHT * number
        kind = "chosen" if number else "plain"
        choice = f"{row['layer']}, {row['pooling']}"
        plot.name(shorten(choice, 14.0), y, kind="tick", gap=10)
        if spread:
            plot.whisker(score - spread, score + spread, y, kind)
        plot.dot(score, y, 3.5, kind, f"{choice}: {format_figure(score)}, in {format_duration(row['seconds'])}")
    return plot.svg()
