"""Several ways beside each other: the methods of a ladder, the layers of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from clearhead.explain.svg.elements import add
from clearhead.explain.svg.plot import HEIGHT, LEFT, RIGHT, WIDTH, Plot, axis, blank, powers, tick_text, written
from clearhead.explain.tokens import shorten
from clearhead.report.formatting import LOWER_IS_BETTER, duration, figure, known, metric_name

MOST_ROWS = 60
APART = 9.0  # between two points, in the picture's own units
LINE = 14.0  # from one name to the next
NAMES_UNTIL = 168.0
ROW = 19.0


def ladder(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The methods with what each is worth and costs, as a table and a picture."""
    if found is None:
        return None
    rungs = [dict(rung) for rung in found["rungs"][:MOST_ROWS]]
    for rung in rungs:
        rung["between"] = _between(rung["low"], rung["high"])
        rung["chosen"] = rung["method"] == found["recommended"]
        rung["label"] = _label(rung)
    metric = metric_name(str(found["metric"]))
    return {**found, "rungs": rungs, "name": metric, "picture": _rungs(rungs, metric)}


def _rungs(rungs: Sequence[Mapping[str, Any]], metric: str) -> Markup | None:
    """Quality with its interval against the time that one text takes."""
    drawn = [rung for rung in rungs if known(rung["value"]) is not None and (known(rung["latency_ms"]) or 0) > 0]
    if not drawn:
        return None
    ends = [end for rung in drawn for end in (rung["value"], rung["low"], rung["high"]) if known(end) is not None]
    each = "; ".join(f"{_name(rung)} {figure(rung['value'])} at {figure(rung['latency_ms'])} ms" for rung in drawn)
    across = powers([rung["latency_ms"] for rung in drawn], "milliseconds for one text, by powers of ten")
    plot = Plot("rungs", "Quality against time", f"{metric}: {each}.", across, axis(ends, metric, ticks=4))
    places = _apart([plot.x(rung["latency_ms"]) for rung in drawn], APART, WIDTH - RIGHT - 4)
    levels = _apart([plot.y(rung["value"]) for rung in drawn], LINE, HEIGHT)
    for rung, x, level in zip(drawn, places, levels, strict=True):
        kind = "plain" if rung.get("chosen") else "chosen"
        if known(rung["low"]) is not None and known(rung["high"]) is not None:
            low, high = plot.y(rung["low"]), plot.y(rung["high"])
            add(plot.root, "line", class_=f"whisker {kind}", x1=x, x2=x, y1=low, y2=high)
        y = plot.y(rung["value"])
        dot = add(plot.root, "circle", class_=f"point {kind}", cx=x, cy=y, r=4)
        add(dot, "title", f"{_name(rung)}: {metric} {figure(rung['value'])} ({rung['between']})")
        left = x > (LEFT + WIDTH) / 2
        beside = (min(places, key=lambda place: (abs(place - x) > 60, place)) - 9) if left else x + 9
        add(
            plot.root,
            "text",
            shorten(_name(rung), 12.0),
            class_="name",
            x=beside,
            y=level + 4,
            text_anchor="end" if left else "start",
        )
    return plot.svg()


def _label(rung: Mapping[str, Any]) -> str:
    """The method, with how much of it there was time for."""
    epochs = rung.get("epochs")
    return _name(rung) if epochs is None else f"{_name(rung)} ({epochs} of {rung['planned_epochs']} epochs)"


def _name(rung: Mapping[str, Any]) -> str:
    return str(rung["method"])


def _between(low: Any, high: Any) -> str:
    return "" if known(low) is None or known(high) is None else f"{figure(low)} to {figure(high)}"


def _apart(places: Sequence[float], least: float, most: float) -> list[float]:
    """The same places in the same order, moved as little as it takes for none to cover another."""
    made = dict.fromkeys(range(len(places)), 0.0)
    before = -least
    for number in sorted(made, key=lambda one: places[one]):
        before = made[number] = max(places[number], before + least)
    limit = most + least
    for number in sorted(made, key=lambda one: -made[one]):
        limit = made[number] = min(made[number], limit - least)
    return [made[number] for number in range(len(places))]


def baselines(found: Sequence[Mapping[str, Any]], part: tuple[str, Any] | None) -> dict[str, Any] | None:
    """Cheap methods beside the trained network, measured on the rows of its first part."""
    if not found or part is None:
        return None
    name, measured = part
    rows = [
        {
            **one,
            "between": _between(one["low"], one["high"]),
            "gap": one["difference"]["difference"],
            "gap_between": _between(one["difference"]["low"], one["difference"]["high"]),
        }
        for one in found[:MOST_ROWS]
    ]
    main = measured.metrics[measured.main]
    own = {"value": known(main.value), "between": _between(known(main.low), known(main.high))}
    lower = measured.main in LOWER_IS_BETTER
    return {"rows": rows, "own": own, "metric": metric_name(measured.main), "lower": lower, "part": name}


def sweep(found: Sequence[Mapping[str, Any]], main: str | None) -> dict[str, Any] | None:
    """The layers and poolings that were tried, the best first, as a table with bars and a picture."""
    if not found:
        return None
    metric = main or "score"
    sign = 1 if metric in LOWER_IS_BETTER else -1
    lines = sorted(found[:MOST_ROWS], key=lambda one: (one["score"] is None, sign * (known(one["score"]) or 0.0)))
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
    across = axis([end for score, spread in reach for end in (score - spread, score + spread)], metric, ticks=4)
    height = 40 + ROW * len(drawn)
    said = "; ".join(f"{row['layer']} with {row['pooling']} {figure(row['score'])}" for row in drawn)
    root = blank("swept", "Layers and poolings compared", f"{metric} by cross-validation: {said}.", height)

    def place(value: float) -> float:
        return NAMES_UNTIL + across.share(value) * (WIDTH - 18 - NAMES_UNTIL)

    for tick in across.ticks:
        add(root, "line", class_="grid", x1=place(tick), x2=place(tick), y1=4, y2=height - 34)
        add(
            root,
            "text",
            tick_text(tick, across.ticks),
            class_="tick",
            x=place(tick),
            y=height - 20,
            text_anchor="middle",
        )
    add(root, "text", metric, class_="label", x=(NAMES_UNTIL + WIDTH - 18) / 2, y=height - 4, text_anchor="middle")
    for number, (row, (score, spread)) in enumerate(zip(drawn, reach, strict=True)):
        y = 14 + ROW * number
        kind = "chosen" if number else "plain"
        name = shorten(f"{row['layer']}, {row['pooling']}", 14.0)
        add(root, "text", name, class_="tick", x=NAMES_UNTIL - 10, y=y + 4, text_anchor="end")
        if spread:
            low, high = place(score - spread), place(score + spread)
            add(root, "line", class_=f"whisker {kind}", x1=low, x2=high, y1=y, y2=y)
        dot = add(root, "circle", class_=f"point {kind}", cx=place(score), cy=y, r=3.5)
        add(dot, "title", f"{row['layer']}, {row['pooling']}: {figure(score)}, in {duration(row['seconds'])}")
    return written(root)
