"""Build SVG as a tree of elements, so that every text is escaped by construction."""

from __future__ import annotations

import base64
from xml.etree import ElementTree

from clearhead.explain.svg.numbers import format_number
from clearhead.explain.svg.text import escape_invisible

Element = ElementTree.Element
Point = tuple[float, float]


def _add(parent: Element, tag: str, text: str | None, attributes: dict[str, str | float]) -> Element:
    """Append an element; `stroke_width=2` becomes stroke-width="2", `class_` becomes class."""
    formatted = {
        name.rstrip("_").replace("_", "-"): escape_invisible(value) if isinstance(value, str) else format_number(value)
        for name, value in attributes.items()
    }
    element = ElementTree.SubElement(parent, tag, formatted)
    if text is not None:
        element.text = escape_invisible(text)
    return element


def add_rect(parent: Element, **attributes: str | float) -> Element:
    """Add a rectangle."""
    return _add(parent, "rect", None, attributes)


def add_line(parent: Element, **attributes: str | float) -> Element:
    """Add a line."""
    return _add(parent, "line", None, attributes)


def add_circle(parent: Element, **attributes: str | float) -> Element:
    """Add a circle."""
    return _add(parent, "circle", None, attributes)


def add_polyline(parent: Element, **attributes: str | float) -> Element:
    """Add a line through several points."""
    return _add(parent, "polyline", None, attributes)


def add_polygon(parent: Element, **attributes: str | float) -> Element:
    """Add a polygon."""
    return _add(parent, "polygon", None, attributes)


def add_group(parent: Element, **attributes: str | float) -> Element:
    """Add a group whose elements inherit its style."""
    return _add(parent, "g", None, attributes)


def add_text(parent: Element, text: str, **attributes: str | float) -> Element:
    """Add a line of text."""
    return _add(parent, "text", text, attributes)


def add_label(parent: Element, label: str, full_text: str, **attributes: str | float) -> Element:
    """Add a text; if it was shortened, the full text is its tooltip."""
    element = add_text(parent, label, **attributes)
    if full_text != label:
        add_tooltip(element, full_text)
    return element


def add_curve(
    parent: Element, start: Point, leave: Point, arrive: Point, end: Point, **attributes: str | float
) -> Element:
    """Add a cubic Bezier curve from `start` to `end` with the control points `leave` and `arrive`."""
    start_text, *others = (f"{x:.1f} {y:.1f}" for x, y in (start, leave, arrive, end))
    return _add(parent, "path", None, {"d": f"M {start_text} C {', '.join(others)}", **attributes})


def add_image(parent: Element, png: bytes, **attributes: str | float) -> Element:
    """Add an embedded PNG image."""
    element = _add(parent, "image", None, attributes)
    element.set("href", "data:image/png;base64," + base64.b64encode(png).decode())
    return element


def add_tooltip(element: Element, text: str) -> None:
    """Add a tooltip to an element."""
    _add(element, "title", text, {})


def describe(root: Element, title: str, description: str, name: str = "") -> None:
    """Add a title and a description for screen readers; `name` is the prefix of their ids."""
    for tag, text in (("title", title), ("desc", description)):
        _add(root, tag, text, {"id": f"{name}-{tag}"} if name else {})


def rotation(degrees: float, x: float, y: float, digits: int = 1) -> str:
    """Return a `transform` that rotates around a point; negative degrees are counterclockwise."""
    return f"rotate({degrees:g} {x:.{digits}f} {y:.{digits}f})"


def inline_svg(document: str) -> str:
    """Strip the XML prolog of an SVG document, to inline it in HTML."""
    return document[document.index("<svg") :]
