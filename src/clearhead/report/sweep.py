"""The layers and poolings that were tried, beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from clearhead.explain.svg import RowPlot, linear_axis, shorten
from clearhead.report.formatting import LOWER_IS_BETTER, duration, figure, known, metric_name

MOST_ROWS = 60
NAMES_UNTIL = 168.0
ROW = 19.0


def describe_sweep(choices: Sequence[Mapping[str, Any]], main: str | None) -> dict[str, Any] | None:
    """The layers and poolings that were tried, the best first, as a table with bars and a picture."""
    if not choices:
        return None
    metric = main or "score"
    sign = 1 if metric in LOWER_IS_BETTER else -1
    lines = sorted(
        choices[:MOST_ROWS], key=lambda choice: (choice["score"] is None, sign * (known(choice["score"]) or 0.0))
    )
    rows = [{**line, "width": _width(line["score"])} for line in lines]
    return {
        "rows": rows,
        "metric": metric_name(metric),
        "lower": metric in LOWER_IS_BETTER,
        "bars": all(row["width"] is not None for row in rows),
        "picture": _swept(rows, metric_name(metric)),
    }


def _width(score: Any) -> float | None:
    """Of a bar, where a score is a share of what can be reached."""
    value = known(score)
    return None if value is None or not 0 <= value <= 1 else 100 * value


def _swept(rows: Sequence[Mapping[str, Any]], metric: str) -> Markup | None:
    """A dot for each choice, on a line of one spread to either side."""
    drawn = [row for row in rows if known(row["score"]) is not None]
    if not drawn:
        return None
    reach = [(row["score"], known(row["spread"]) or 0.0) for row in drawn]
    across = linear_axis([end for score, spread in reach for end in (score - spread, score + spread)], metric, ticks=4)
    height = 40 + ROW * len(drawn)
    summary = "; ".join(f"{row['layer']} with {row['pooling']} {figure(row['score'])}" for row in drawn)
    description = f"{metric} by cross-validation: {summary}."
    plot = RowPlot(
        "swept",
        "Layers and poolings compared",
        description,
        across,
        height=height,
        left=NAMES_UNTIL,
        right=18,
        top=4,
    )
    for number, (row, (score, spread)) in enumerate(zip(drawn, reach, strict=True)):
        y = 14 + ROW * number
        kind = "chosen" if number else "plain"
        choice = f"{row['layer']}, {row['pooling']}"
        plot.name(shorten(choice, 14.0), y, kind="tick", gap=10)
        if spread:
            plot.whisker(score - spread, score + spread, y, kind)
        plot.dot(score, y, 3.5, kind, f"{choice}: {figure(score)}, in {duration(row['seconds'])}")
    return plot.svg()
