"""Compare the methods of a ladder by quality and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from clearhead.explain.svg import Plot, linear_axis, log_axis, shorten
from clearhead.explain.svg.plot import HEIGHT, LEFT, RIGHT, WIDTH
from clearhead.report.formatting import finite_number, format_figure, format_interval, metric_name

MAX_ROWS = 60
MIN_POINT_DISTANCE = 9.0  # in units of the picture
NAME_HEIGHT = 14.0  # in units of the picture


def describe_ladder(comparison: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the template values of the method comparison, or None without one."""
    if comparison is None:
        return None
    rungs = [dict(rung) for rung in comparison["rungs"][:MAX_ROWS]]
    for rung in rungs:
        rung["between"] = format_interval(rung["low"], rung["high"])
        rung["chosen"] = rung["method"] == comparison["recommended"]
        rung["label"] = _label_rung(rung)
    metric = metric_name(str(comparison["metric"]))
    return {**comparison, "rungs": rungs, "name": metric, "picture": _draw_rungs(rungs, metric)}


def _draw_rungs(rungs: Sequence[Mapping[str, Any]], metric: str) -> Markup | None:
    """Draw quality with its interval against latency."""
    measured_rungs = [
        rung
        for rung in rungs
        if finite_number(rung["value"]) is not None and (finite_number(rung["latency_ms"]) or 0) > 0
    ]
    if not measured_rungs:
        return None
    ends = [
        end
        for rung in measured_rungs
        for end in (rung["value"], rung["low"], rung["high"])
        if finite_number(end) is not None
    ]
    summary = "; ".join(
        f"{_rung_method(rung)} {format_figure(rung['value'])} at {format_figure(rung['latency_ms'])} ms"
        for rung in measured_rungs
    )
    latency_axis = log_axis([rung["latency_ms"] for rung in measured_rungs], "milliseconds for one text (log scale)")
    plot = Plot(
        "rungs", "Quality against latency", f"{metric}: {summary}.", latency_axis, linear_axis(ends, metric, ticks=4)
    )
    positions = _spread_positions(
        [plot.x(rung["latency_ms"]) for rung in measured_rungs], MIN_POINT_DISTANCE, WIDTH - RIGHT - 4
    )
    levels = _spread_positions([plot.y(rung["value"]) for rung in measured_rungs], NAME_HEIGHT, HEIGHT)
    for rung, x, level in zip(measured_rungs, positions, levels, strict=True):
        kind = "plain" if rung.get("chosen") else "chosen"
        if finite_number(rung["low"]) is not None and finite_number(rung["high"]) is not None:
            plot.whisker(x, rung["low"], rung["high"], kind)
        plot.point(
            x, rung["value"], kind, f"{_rung_method(rung)}: {metric} {format_figure(rung['value'])} ({rung['between']})"
        )
        is_left = x > (LEFT + WIDTH) / 2
        label_x = (min(positions, key=lambda position: (abs(position - x) > 60, position)) - 9) if is_left else x + 9
        plot.name(shorten(_rung_method(rung), 12.0), label_x, level + 4, "end" if is_left else "start")
    return plot.svg()


def _label_rung(rung: Mapping[str, Any]) -> str:
    """Return the method name, with the epochs that the time limit allowed."""
    epochs = rung.get("epochs")
    return (
        _rung_method(rung) if epochs is None else f"{_rung_method(rung)} ({epochs} of {rung['planned_epochs']} epochs)"
    )


def _rung_method(rung: Mapping[str, Any]) -> str:
    return str(rung["method"])


def _spread_positions(positions: Sequence[float], min_distance: float, upper_limit: float) -> list[float]:
    """Move positions apart as little as needed so that none overlap, keeping their order."""
    moved = dict.fromkeys(range(len(positions)), 0.0)
    previous = -min_distance
    for number in sorted(moved, key=lambda index: positions[index]):
        previous = moved[number] = max(positions[number], previous + min_distance)
    limit = upper_limit + min_distance
    for number in sorted(moved, key=lambda index: -moved[index]):
        limit = moved[number] = min(moved[number], limit - min_distance)
    return [moved[index] for index in range(len(positions))]
