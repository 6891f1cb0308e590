"""The methods of a ladder beside each other: what each is worth, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from clearhead.explain.svg import Plot, linear_axis, log_axis, shorten
from clearhead.explain.svg.plot import HEIGHT, LEFT, RIGHT, WIDTH
from clearhead.report.formatting import figure, interval_text, known, metric_name

MOST_ROWS = 60
APART = 9.0  # between two points, in the picture's own units
LINE = 14.0  # from one name to the next


def describe_ladder(comparison: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The methods with what each is worth and costs, as a table and a picture."""
    if comparison is None:
        return None
    rungs = [dict(rung) for rung in comparison["rungs"][:MOST_ROWS]]
    for rung in rungs:
        rung["between"] = interval_text(rung["low"], rung["high"])
        rung["chosen"] = rung["method"] == comparison["recommended"]
        rung["label"] = _label(rung)
    metric = metric_name(str(comparison["metric"]))
    return {**comparison, "rungs": rungs, "name": metric, "picture": _rungs(rungs, metric)}


def _rungs(rungs: Sequence[Mapping[str, Any]], metric: str) -> Markup | None:
    """Quality with its interval against the time that one text takes."""
    drawn = [rung for rung in rungs if known(rung["value"]) is not None and (known(rung["latency_ms"]) or 0) > 0]
    if not drawn:
        return None
    ends = [end for rung in drawn for end in (rung["value"], rung["low"], rung["high"]) if known(end) is not None]
    summary = "; ".join(f"{_name(rung)} {figure(rung['value'])} at {figure(rung['latency_ms'])} ms" for rung in drawn)
    across = log_axis([rung["latency_ms"] for rung in drawn], "milliseconds for one text, by powers of ten")
    plot = Plot("rungs", "Quality against time", f"{metric}: {summary}.", across, linear_axis(ends, metric, ticks=4))
    positions = _apart([plot.x(rung["latency_ms"]) for rung in drawn], APART, WIDTH - RIGHT - 4)
    levels = _apart([plot.y(rung["value"]) for rung in drawn], LINE, HEIGHT)
    for rung, x, level in zip(drawn, positions, levels, strict=True):
        kind = "plain" if rung.get("chosen") else "chosen"
        if known(rung["low"]) is not None and known(rung["high"]) is not None:
            plot.whisker(x, rung["low"], rung["high"], kind)
        plot.point(x, rung["value"], kind, f"{_name(rung)}: {metric} {figure(rung['value'])} ({rung['between']})")
        left = x > (LEFT + WIDTH) / 2
        beside = (min(positions, key=lambda position: (abs(position - x) > 60, position)) - 9) if left else x + 9
        plot.name(shorten(_name(rung), 12.0), beside, level + 4, "end" if left else "start")
    return plot.svg()


def _label(rung: Mapping[str, Any]) -> str:
    """The method, with how much of it there was time for."""
    epochs = rung.get("epochs")
    return _name(rung) if epochs is None else f"{_name(rung)} ({epochs} of {rung['planned_epochs']} epochs)"


def _name(rung: Mapping[str, Any]) -> str:
    return str(rung["method"])


def _apart(positions: Sequence[float], least: float, most: float) -> list[float]:
    """The same places in the same order, moved as little as it takes for none to cover another."""
    moved = dict.fromkeys(range(len(positions)), 0.0)
    before = -least
    for number in sorted(moved, key=lambda index: positions[index]):
        before = moved[number] = max(positions[number], before + least)
    limit = most + least
    for number in sorted(moved, key=lambda index: -moved[index]):
        limit = moved[number] = min(moved[number], limit - least)
    return [moved[number] for number in range(len(positions))]
