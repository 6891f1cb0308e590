"""A frame with two axes, and the few marks that the report draws in it; the page's style sheet gives the colours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree

from markupsafe import Markup

from clearhead.explain.svg.elements import Element, add
from clearhead.explain.svg.numbers import exponent

WIDTH, HEIGHT = 360.0, 232.0  # as wide as a phone, so that letters keep their size there
SMALLEST = 1e-30  # what is nearer to 0 is 0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 14.0, 10.0, 44.0

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """From where to where, what is written on the way, and what it is about."""

    low: float
    high: float
    ticks: tuple[float, ...]
    label: str
    log: bool = False  # equal steps are equal factors

    def share(self, value: float) -> float:
        """How far along the axis a value lies, from 0 to 1."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log10(max(one, SMALLEST)) for one in (value, low, high))
        return min(max((value - low) / (high - low), 0.0), 1.0)


def axis(values: Iterable[float], label: str, *, zero: bool = False, ticks: int = 5) -> Axis:
    """An axis with round numbers that holds all values; `zero` says that it begins there."""
    found = [0.0, *values] if zero else list(values)
    low, high = min(found), max(found)
    largest = max(abs(low), abs(high))
    if high - low <= largest * 1e-9 or largest < SMALLEST:  # one value, as far as a picture can tell
        reach = largest * 0.1 if largest >= SMALLEST else 1.0
        low, high = (low if zero else low - reach), high + reach
    step = _round_step((high - low) / ticks)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    marks = tuple(place * step for place in range(first, last + 1))
    return Axis(low=marks[0], high=marks[-1], ticks=marks, label=label)


def powers(values: Iterable[float], label: str) -> Axis:
    """From one power of ten to another, such that all values (above 0) lie between them."""
    logs = [math.log10(max(value, SMALLEST)) for value in values]
    low, high = math.floor(min(logs) + 1e-9), math.ceil(max(logs) - 1e-9)
    high = max(high, low + 1)
    every = -(-(high - low) // 6)
    marks = tuple(10.0**power for power in range(low, high + 1, every))
    return Axis(low=10.0**low, high=10.0**high, ticks=marks, label=label, log=True)


def unit(label: str) -> Axis:
    """From 0 to 1."""
    return Axis(low=0.0, high=1.0, ticks=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0), label=label)


def along(first: float, last: float, label: str) -> Axis:
    """From the first to the last of things that are counted, with round numbers where they fall."""
    if first == last:
        return Axis(low=first - 1, high=first + 1, ticks=(first,), label=label)
    step = max(_round_step((last - first) / 5), 1.0)
    marks = [place * step for place in range(math.ceil(first / step), math.floor(last / step) + 1)]
    return Axis(low=first, high=last, ticks=tuple(marks), label=label)


def _round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(times * power for times in (1.0, 2.0, 5.0, 10.0) if times * power >= rough * (1 - 1e-9))


def tick_text(value: float, ticks: Sequence[float]) -> str:
    """A number at an axis, with the digits that tell it from its neighbours."""
    step = min((abs(b - a) for a, b in pairwise(ticks)), default=abs(value) or 1.0)
    if abs(value) < step * 1e-6:
        return "0"
    largest = max(map(abs, ticks))
    if largest < 0.01 or largest >= 1e7:
        text = exponent(value, 3)
    elif largest >= 10_000 and step >= 100:
        text = f"{value / 1000:g}k"
    else:
        text = f"{value:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def blank(name: str, title: str, description: str, height: float = HEIGHT) -> Element:
    """An empty picture with its name and description for those who cannot see it."""
    root = Element("svg", {"role": "img", "viewBox": f"0 0 {WIDTH:g} {height:g}"})
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    add(root, "title", title, id=f"{name}-title")
    add(root, "desc", description, id=f"{name}-desc")
    return root


def written(root: Element) -> Markup:
    """The picture as it stands in the page; every text in it is escaped by construction."""
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704


class Plot:
    """One picture with axes; values go in, marks come out."""

    def __init__(self, name: str, title: str, description: str, x: Axis, y: Axis) -> None:
        self._x, self._y = x, y
        self.root = blank(name, title, description)
        for tick in y.ticks:
            at = self.y(tick)
            add(self.root, "line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at)
            add(self.root, "text", tick_text(tick, y.ticks), class_="tick", x=LEFT - 6, y=at + 4, text_anchor="end")
        for tick in x.ticks:
            place = min(self.x(tick), WIDTH - RIGHT - 4)
            text = f"{tick:,g}" if x.log else tick_text(tick, x.ticks)
            add(self.root, "text", text, class_="tick", x=place, y=HEIGHT - BOTTOM + 17, text_anchor="middle")
        add(self.root, "line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=HEIGHT - BOTTOM, y2=HEIGHT - BOTTOM)
        add(
            self.root, "text", x.label, class_="label", x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 7, text_anchor="middle"
        )
        middle = (TOP + HEIGHT - BOTTOM) / 2
        add(
            self.root,
            "text",
            y.label,
            class_="label",
            x=0,
            y=0,
            text_anchor="middle",
            transform=f"translate(11 {middle:g}) rotate(-90)",
        )

    def x(self, value: float) -> float:
        """Where a value stands from left to right."""
        return LEFT + self._x.share(value) * (WIDTH - RIGHT - LEFT)

    def y(self, value: float) -> float:
        """Where a value stands from top to bottom."""
        return HEIGHT - BOTTOM - self._y.share(value) * (HEIGHT - BOTTOM - TOP)

    def line(self, points: Sequence[Point], kind: str) -> None:
        """Points joined from the first to the last; one alone is a dot."""
        if len(points) == 1:
            self.dot(points[0], 3.0, f"{kind} dot")
        else:
            add(self.root, "polyline", class_=kind, points=self._path(points))

    def band(self, lower: Sequence[Point], upper: Sequence[Point], kind: str) -> None:
        """What lies between two lines."""
        add(self.root, "polygon", class_=kind, points=self._path([*lower, *reversed(upper)]))

    def dot(self, point: Point, radius: float, kind: str, said: str | None = None) -> None:
        """A round mark, with a remark for those who point at it."""
        made = add(
            self.root,
            "circle",
            class_=kind,
            cx=round(self.x(point[0]), 1),
            cy=round(self.y(point[1]), 1),
            r=round(radius, 1),
        )
        if said is not None:
            add(made, "title", said)

    def column(self, left: float, right: float, height: float, kind: str, said: str) -> None:
        """An upright bar."""
        begin, top = self.x(left), self.y(height)
        made = add(
            self.root,
            "rect",
            class_=kind,
            x=round(begin, 1),
            y=round(top, 1),
            width=round(max(self.x(right) - begin - 1.5, 1.0), 1),
            height=round(HEIGHT - BOTTOM - top, 1),
        )
        add(made, "title", said)

    def _path(self, points: Sequence[Point]) -> str:
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)

    def svg(self) -> Markup:
        """The finished picture."""
        return written(self.root)
