"""A section that somebody else brings to the report, and what it can be made of."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from clearhead.errors import InputError
from clearhead.html import write_cell, write_row, write_table
from clearhead.report.formatting import cut, lines

MOST_ROWS = 200
MOST_CELL = 200
_ID = re.compile(r"[a-z][a-z0-9-]{0,40}")


@dataclass(frozen=True, kw_only=True)
class Section:
    """One more section of a report; `html` is made by `paragraph`, `table` and the report's pictures."""

    id: str
    title: str
    html: Markup  # a plain text is shown as text
    before: str = "cost"  # the section that it stands before

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise InputError(f"{cut(self.id, 40)!r} cannot name a section; use small letters, digits and -.")


def paragraph(text: str, *, note: bool = False) -> Markup:
    """A sentence or some."""
    kind = Markup(' class="note"') if note else ""
    return Markup("<p{}>{}</p>\n").format(kind, lines(text))


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    label: str,
    numbers: Collection[int] = (),
    main: Collection[int] = (),
) -> Markup:
    """A table that scrolls in its own box: `numbers` are the columns that are set right, `main` the rows set bold."""
    heads = [_cell(text, column in numbers, "col") for column, text in enumerate(head)]
    body = (
        write_row(
            (_cell(text, column in numbers, "" if column else "row") for column, text in enumerate(row)),
            class_="main" if line in main else None,
        )
        for line, row in enumerate(rows[:MOST_ROWS])
    )
    left = len(rows) - MOST_ROWS
    more = paragraph(f"And {left:,} more.", note=True) if left > 0 else Markup("")
    return scroll_box(Markup(write_table(body, heads, separator="\n")), label) + more  # noqa: S704


def scroll_box(inner: Markup, label: str) -> Markup:
    """A box in which wide things scroll, named for those who cannot see it."""
    return Markup('<div class="scroll" role="region" tabindex="0" aria-label="{}">\n{}\n</div>\n').format(
        lines(cut(label, 60)), inner
    )


def captioned(svg: Markup, caption: str) -> Markup:
    """A picture with a sentence below it."""
    return Markup("<figure>{}<figcaption>{}</figcaption></figure>\n").format(svg, caption)


def _cell(text: object, number: bool, scope: str) -> str:
    inner = text if isinstance(text, Markup) else Markup("<bdi>{}</bdi>").format(lines(cut(text, MOST_CELL)))
    return write_cell(escape(inner), scope, class_="n" if number else None)
