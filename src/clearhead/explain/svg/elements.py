"""Shapes as a tree of elements, so that every text is escaped by construction."""

from __future__ import annotations

import base64
from xml.etree import ElementTree

from clearhead.explain.svg.numbers import format_number
from clearhead.explain.svg.text import escape_invisible

Element = ElementTree.Element
Point = tuple[float, float]


def _add(parent: Element, tag: str, text: str | None, attributes: dict[str, str | float]) -> Element:
    """Append an element; `stroke_width=2` is written stroke-width="2", `class_` is written class."""
    formatted = {
        name.rstrip("_").replace("_", "-"): escape_invisible(value) if isinstance(value, str) else format_number(value)
        for name, value in attributes.items()
    }
    element = ElementTree.SubElement(parent, tag, formatted)
    if text is not None:
        element.text = escape_invisible(text)
    return element


def add_rect(parent: Element, **attributes: str | float) -> Element:
    """A rectangle."""
    return _add(parent, "rect", None, attributes)


def add_line(parent: Element, **attributes: str | float) -> Element:
    """A straight line."""
    return _add(parent, "line", None, attributes)


def add_circle(parent: Element, **attributes: str | float) -> Element:
    """A circle."""
    return _add(parent, "circle", None, attributes)


def add_polyline(parent: Element, **attributes: str | float) -> Element:
    """Points joined from the first to the last."""
    return _add(parent, "polyline", None, attributes)


def add_polygon(parent: Element, **attributes: str | float) -> Element:
    """A closed shape."""
    return _add(parent, "polygon", None, attributes)


def add_group(parent: Element, **attributes: str | float) -> Element:
    """A group, from which elements inherit their style."""
    return _add(parent, "g", None, attributes)


def add_text(parent: Element, text: str, **attributes: str | float) -> Element:
    """A line of text."""
    return _add(parent, "text", text, attributes)


def add_label(parent: Element, label: str, full_text: str, **attributes: str | float) -> Element:
    """A text that may have been shortened: where it was, the whole is its tooltip."""
    element = add_text(parent, label, **attributes)
    if full_text != label:
        add_tooltip(element, full_text)
    return element


def add_curve(
    parent: Element, start: Point, leave: Point, arrive: Point, end: Point, **attributes: str | float
) -> Element:
    """A Bezier curve from `start`, which it leaves towards `leave`, to `end`, at which it arrives from `arrive`."""
    begin, *others = (f"{x:.1f} {y:.1f}" for x, y in (start, leave, arrive, end))
    return _add(parent, "path", None, {"d": f"M {begin} C {', '.join(others)}", **attributes})


def add_image(parent: Element, png: bytes, **attributes: str | float) -> Element:
    """An image, stretched into its area."""
    element = _add(parent, "image", None, attributes)
    element.set("href", "data:image/png;base64," + base64.b64encode(png).decode())
    return element


def add_tooltip(element: Element, text: str) -> None:
    """What is shown when somebody points at an element."""
    _add(element, "title", text, {})


def describe(root: Element, title: str, description: str, name: str = "") -> None:
    """Name and describe a picture for those who cannot see it; `name` begins the ids of both."""
    for tag, text in (("title", title), ("desc", description)):
        _add(root, tag, text, {"id": f"{name}-{tag}"} if name else {})


def rotation(degrees: float, x: float, y: float, digits: int = 1) -> str:
    """A `transform` that turns an element around a point, counterclockwise where `degrees` is below 0."""
    return f"rotate({degrees:g} {x:.{digits}f} {y:.{digits}f})"


def inline_svg(document: str) -> str:
    """An SVG file as it stands inside an HTML page: without what comes before its first element."""
    return document[document.index("<svg") :]
