"""Plots to embed in a page, which its style sheet colors: a frame with two axes, and rows of dots with whiskers."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from clearhead.explain.svg.axes import Axis, format_tick
from clearhead.explain.svg.elements import (
    Point,
    add_circle,
    add_line,
    add_polygon,
    add_polyline,
    add_rect,
    add_text,
    add_tooltip,
)
from clearhead.explain.svg.frame import finish_embedded, start_embedded

WIDTH, HEIGHT = 360.0, 232.0  # as wide as a phone, so that letters keep their size there
LEFT, RIGHT, TOP, BOTTOM = 48.0, 14.0, 10.0, 44.0


class Plot:
    """A figure with two axes; converts values to positions."""

    def __init__(self, name: str, title: str, description: str, x: Axis, y: Axis) -> None:
        self._x, self._y = x, y
        self.root = start_embedded(name, title, description, WIDTH, HEIGHT)
        for tick in y.ticks:
            level = self.y(tick)
            add_line(self.root, class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=level, y2=level)
            add_text(self.root, format_tick(tick, y.ticks), class_="tick", x=LEFT - 6, y=level + 4, text_anchor="end")
        for tick in x.ticks:
            text = f"{tick:,g}" if x.log else format_tick(tick, x.ticks)
            self._tick(min(self.x(tick), WIDTH - RIGHT - 4), text)
        add_line(self.root, class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=HEIGHT - BOTTOM, y2=HEIGHT - BOTTOM)
        middle = (LEFT + WIDTH - RIGHT) / 2
        add_text(self.root, x.label, class_="label", x=middle, y=HEIGHT - 7, text_anchor="middle")
        turned = f"translate(11 {(TOP + HEIGHT - BOTTOM) / 2:g}) rotate(-90)"
        add_text(self.root, y.label, class_="label", x=0, y=0, text_anchor="middle", transform=turned)

    def x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        return LEFT + self._x.fraction(value) * (WIDTH - RIGHT - LEFT)

    def y(self, value: float) -> float:
        """Return the vertical position of a value."""
        return HEIGHT - BOTTOM - self._y.fraction(value) * (HEIGHT - BOTTOM - TOP)

    def _tick(self, x: float, text: str) -> None:
        add_text(self.root, text, class_="tick", x=x, y=HEIGHT - BOTTOM + 17, text_anchor="middle")

    def tick(self, value: float, text: str) -> None:
        """Draw a custom label below the horizontal axis."""
        self._tick(self.x(value), text)

    def line(self, points: Sequence[Point], kind: str) -> None:
        """Draw a line through points; a single point is a dot."""
        if len(points) == 1:
            self.dot(points[0], 3.0, f"{kind} dot")
        else:
            add_polyline(self.root, class_=kind, points=self._path(points))

    def band(self, lower: Sequence[Point], upper: Sequence[Point], kind: str) -> None:
        """Fill the area between two lines."""
        add_polygon(self.root, class_=kind, points=self._path([*lower, *reversed(upper)]))

    def dot(self, point: Point, radius: float, kind: str, tooltip: str | None = None) -> None:
        """Draw a dot with an optional tooltip."""
        x, y = round(self.x(point[0]), 1), round(self.y(point[1]), 1)
        circle = add_circle(self.root, class_=kind, cx=x, cy=y, r=round(radius, 1))
        if tooltip is not None:
            add_tooltip(circle, tooltip)

    def column(self, start: float, end: float, height: float, kind: str, tooltip: str) -> None:
        """Draw a vertical bar."""
        left, top = self.x(start), self.y(height)
        bar = add_rect(
            self.root,
            class_=kind,
            x=round(left, 1),
            y=round(top, 1),
            width=round(max(self.x(end) - left - 1.5, 1.0), 1),
            height=round(HEIGHT - BOTTOM - top, 1),
        )
        add_tooltip(bar, tooltip)

    def whisker(self, x: float, low: float, high: float, kind: str) -> None:
        """Draw a vertical line between two values; `x` is a position in the figure."""
        add_line(self.root, class_=f"whisker {kind}", x1=x, x2=x, y1=self.y(low), y2=self.y(high))

    def point(self, x: float, value: float, kind: str, tooltip: str) -> None:
        """Draw a dot at a value; `x` is a position in the figure."""
        add_tooltip(add_circle(self.root, class_=f"point {kind}", cx=x, cy=self.y(value), r=4), tooltip)

    def name(self, text: str, x: float, y: float, anchor: str) -> None:
        """Draw a name at a position in the figure."""
        add_text(self.root, text, class_="name", x=x, y=y, text_anchor=anchor)

    def _path(self, points: Sequence[Point]) -> str:
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)

    def svg(self) -> Markup:
        """Return the figure as markup."""
        return finish_embedded(self.root)


class RowPlot:
    """Rows of names with dots and whiskers on a shared horizontal axis."""

    def __init__(
        self,
        name: str,
        title: str,
        description: str,
        x: Axis,
        *,
        height: float,
        left: float,
        right: float = 14.0,
        top: float = 6.0,
    ) -> None:
        """Draw the axis and its grid, which start at `left` and `top`; names end at `left`."""
        self._x, self._left, self._right = x, left, WIDTH - right
        self.root = start_embedded(name, title, description, WIDTH, height)
        end, level = (height - 34, height - 20) if x.label else (height - 24, height - 8)
        for tick in x.ticks:
            tick_x = self.x(tick)
            add_line(self.root, class_="grid", x1=tick_x, x2=tick_x, y1=top, y2=end)
            add_text(self.root, format_tick(tick, x.ticks), class_="tick", x=tick_x, y=level, text_anchor="middle")
        if x.label:
            middle = (self._left + self._right) / 2
            add_text(self.root, x.label, class_="label", x=middle, y=height - 4, text_anchor="middle")

    def x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        return self._left + self._x.fraction(value) * (self._right - self._left)

    def name(self, text: str, y: float, *, kind: str = "name", gap: float = 12.0) -> None:
        """Draw the name of a row, left of the axis."""
        add_text(self.root, text, class_=kind, x=self._left - gap, y=y + 4, text_anchor="end")

    def whisker(self, low: float, high: float, y: float, kind: str) -> None:
        """Draw a horizontal line between two values."""
        add_line(self.root, class_=f"whisker {kind}", x1=self.x(low), x2=self.x(high), y1=y, y2=y)

    def dot(self, value: float, y: float, radius: float, kind: str, tooltip: str) -> None:
        """Draw a dot with a tooltip."""
        add_tooltip(add_circle(self.root, class_=f"point {kind}", cx=self.x(value), cy=y, r=radius), tooltip)

    def svg(self) -> Markup:
        """Return the figure as markup."""
        return finish_embedded(self.root)
