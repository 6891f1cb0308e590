"""A small way to write SVG: a tree of elements, so that every text is escaped by construction."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from xml.etree import ElementTree

from clearhead.explain.svg.numbers import number
from clearhead.explain.tokens import visible
from clearhead.explain.tokens import width as em

SPACE = "http://www.w3.org/2000/svg"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Arial, sans-serif"
PAPER, INK, SOFT = "#fbfaf6", "#1f2328", "#57606a"

Element = ElementTree.Element


def add(parent: Element, tag: str, text: str | None = None, **attributes: str | float) -> Element:
    """One element more; `stroke_width=2` is written stroke-width="2"."""
    given = {
        name.rstrip("_").replace("_", "-"): visible(value) if isinstance(value, str) else number(value)
        for name, value in attributes.items()
    }
    made = ElementTree.SubElement(parent, tag, given)
    if text is not None:
        made.text = visible(text)
    return made


LINE = 21.0  # a line of the heading
HEADING_EM = 16 * 1.2  # the width of an em of it, whose letters are bold


def picture(width: float, title: str, description: str, heading: Sequence[str] = ()) -> Element:
    """An empty picture with its name and description for those who cannot see it.

    The lines of a heading stand above the title, which is then set smaller; they take LINE each.
    """
    root = Element("svg", {"xmlns": SPACE, "role": "img", "font-family": FONT, "fill": INK})
    name = " ".join([*heading, f"({title})"]) if heading else title
    root.set("aria-label", visible(name))
    add(root, "title", name)
    add(root, "desc", description)
    add(root, "rect", class_="paper", width=width, height=0, rx=10, fill=PAPER)
    middle: dict[str, str | float] = {"x": width / 2, "text_anchor": "middle", "class_": "title"}
    for at, line in enumerate(heading):
        size = 16 * min(1.0, (width - 30) / (HEADING_EM * em(line)))
        add(root, "text", line, y=30 + LINE * at, font_size=size, font_weight="600", **middle)
    soft: dict[str, str | float] = {"fill": SOFT} if heading else {"font_weight": "600"}
    size = min(13.0 if heading else 17.0, (width - 30) / em(title))
    add(root, "text", title, y=30 + LINE * len(heading), font_size=size, **middle, **soft)
    return root


def finish(root: Element, width: float, y: float, caption: str) -> str:
    """Put the caption below, set the size and write the whole picture out; the paper and the title fit its width."""
    for line in textwrap.wrap(caption, int((width - 16) / 6.5)):
        add(root, "text", line, x=width / 2, y=y, font_size=12, fill=SOFT, text_anchor="middle", class_="caption")
        y += 17
    height = number(y + 4)
    paper = root.find("rect")
    if paper is not None:
        paper.set("height", height)
        paper.set("width", number(width))
    for title in root.findall("text[@class='title']"):
        title.set("x", number(width / 2))
    root.set("viewBox", f"0 0 {number(width)} {height}")
    root.set("width", number(width))
    root.set("height", height)
    return ElementTree.tostring(root, encoding="unicode") + "\n"
