"""Start and finish figures: standalone ones with heading, background and caption, and ones to embed in a page."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from xml.etree import ElementTree

from markupsafe import Markup

from clearhead.explain.svg.colors import INK, PAPER, SOFT
from clearhead.explain.svg.elements import Element, add_rect, add_text, describe
from clearhead.explain.svg.numbers import format_number
from clearhead.explain.svg.text import escape_invisible
from clearhead.explain.svg.text import text_width as em

SVG_NAMESPACE = "http://www.w3.org/2000/svg"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Arial, sans-serif"
LINE_HEIGHT = 21.0  # a line of the heading
HEADING_EM = 16 * 1.2  # width of an em of the bold heading


def start_picture(width: float, title: str, description: str, heading: Sequence[str] = ()) -> Element:
    """Start a figure with a name and a description for screen readers.

    The lines of a heading are above the title, which is smaller then; each takes LINE_HEIGHT.
    """
    root = Element("svg", {"xmlns": SVG_NAMESPACE, "role": "img", "font-family": FONT, "fill": INK})
    name = " ".join([*heading, f"({title})"]) if heading else title
    root.set("aria-label", escape_invisible(name))
    describe(root, name, description)
    add_rect(root, class_="paper", width=width, height=0, rx=10, fill=PAPER)
    middle: dict[str, str | float] = {"x": width / 2, "text_anchor": "middle", "class_": "title"}
    for index, line in enumerate(heading):
        size = 16 * min(1.0, (width - 30) / (HEADING_EM * em(line)))
        add_text(root, line, y=30 + LINE_HEIGHT * index, font_size=size, font_weight="600", **middle)
    soft: dict[str, str | float] = {"fill": SOFT} if heading else {"font_weight": "600"}
    size = min(13.0 if heading else 17.0, (width - 30) / em(title))
    add_text(root, title, y=30 + LINE_HEIGHT * len(heading), font_size=size, **middle, **soft)
    return root


def finish_picture(root: Element, width: float, y: float, caption: str) -> str:
    """Add the caption, fit background and title to the size, and return the figure as SVG."""
    for line in textwrap.wrap(caption, int((width - 16) / 6.5)):
        add_text(root, line, x=width / 2, y=y, font_size=12, fill=SOFT, text_anchor="middle", class_="caption")
        y += 17
    height = format_number(y + 4)
    paper = root.find("rect")
    if paper is not None:
        paper.set("height", height)
        paper.set("width", format_number(width))
    for title in root.findall("text[@class='title']"):
        title.set("x", format_number(width / 2))
    root.set("viewBox", f"0 0 {format_number(width)} {height}")
    root.set("width", format_number(width))
    root.set("height", height)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def start_embedded(name: str, title: str, description: str, width: float, height: float) -> Element:
    """Start a figure that gets colors and font from the style sheet of its page; `name` is unique in the page."""
    root = Element("svg", {"role": "img", "viewBox": f"0 0 {width:g} {height:g}"})
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    describe(root, title, description, name)
    return root


def finish_embedded(root: Element) -> Markup:
    """Return the figure as markup; every text in it is escaped by construction."""
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704
