"""Parse a page into its elements, sections and text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

EMPTY = {"meta"}
APART = {"td", "th", "tr", "li", "p"}  # elements whose texts are separated by a space


class Reader(HTMLParser):
    """Elements with their attributes, and the text of each section; fails if an element is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.sections: dict[str, str] = {}
        self.text = ""
        self._open: list[str] = []
        self._inside = ""
        self.feed(page)
        self.close()
        assert not self._open, f"unclosed elements: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.handle_data(" " if tag in APART else "")
        if tag not in EMPTY:
            self._open.append(tag)
        if tag == "section":
            self._inside = str(dict(attrs)["id"])
            self.sections[self._inside] = ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self._inside = "" if tag == "section" else self._inside

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            return
        self.text += data
        if self._inside:
            self.sections[self._inside] += data

    def section_text(self, section: str) -> str:
        """Return the text of a section on one line."""
        return re.sub(r"\s+", " ", self.sections[section]).strip()

    def all(self, tag: str, **expected: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements of a tag that have the expected ones."""
        return [attributes for name, attributes in self.tags if name == tag and expected.items() <= attributes.items()]
