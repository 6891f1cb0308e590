"""A small way to write SVG: a tree of elements, so that every text is escaped by construction."""

from __future__ import annotations

import textwrap
from xml.etree import ElementTree

from clearhead.explain.tokens import visible
from clearhead.explain.tokens import width as em

SPACE = "http://www.w3.org/2000/svg"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Arial, sans-serif"
PAPER, INK, SOFT = "#fbfaf6", "#1f2328", "#57606a"

Element = ElementTree.Element


def number(value: float) -> str:
    """A coordinate or a share with as few digits as it needs."""
    return f"{value:.4f}".rstrip("0").rstrip(".") or "0"


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


def picture(width: float, title: str, description: str) -> Element:
    """An empty picture with its name and description for those who cannot see it."""
    root = Element("svg", {"xmlns": SPACE, "role": "img", "font-family": FONT, "fill": INK})
    root.set("aria-label", visible(title))
    add(root, "title", title)
    add(root, "desc", description)
    add(root, "rect", class_="paper", width=width, height=0, rx=10, fill=PAPER)
    size = min(17.0, (width - 30) / em(title))
    add(root, "text", title, x=width / 2, y=30, font_size=size, font_weight="600", text_anchor="middle")
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
    title = root.find("text")
    if title is not None:
        title.set("x", number(width / 2))
    root.set("viewBox", f"0 0 {number(width)} {height}")
    root.set("width", number(width))
    root.set("height", height)
    return ElementTree.tostring(root, encoding="unicode") + "\n"
