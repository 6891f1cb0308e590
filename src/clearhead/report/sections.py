"""Extra report sections of other packages, and their building blocks."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from clearhead.errors import InputError
from clearhead.html import write_cell, write_row, write_table
from clearhead.report.formatting import escape_lines, truncate

MAX_ROWS = 200
MAX_CELL_CHARACTERS = 200
_ID = re.compile(r"[a-z][a-z0-9-]{0,40}")


@dataclass(frozen=True, kw_only=True)
class Section:
    """An extra section; `html` comes from `paragraph`, `table` and the pictures of the report."""

    id: str
    title: str
    html: Markup  # a plain string is escaped
    before: str = "cost"  # id of the section that follows

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise InputError(
                f"{truncate(self.id, 40)!r} is not a valid section id; expected lowercase letters, digits and hyphens."
            )


def paragraph(text: str, *, note: bool = False) -> Markup:
    """Render a paragraph; `note` makes it small."""
    kind = Markup(' class="note"') if note else ""
    return Markup("<p{}>{}</p>\n").format(kind, escape_lines(text))


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    label: str,
    numbers: Collection[int] = (),
    main: Collection[int] = (),
) -> Markup:
    """Render a scrollable table; `numbers` are right-aligned columns, `main` are bold rows."""
    heads = [_cell(text, column in numbers, "col") for column, text in enumerate(head)]
    body = (
        write_row(
            (_cell(text, column in numbers, "" if column else "row") for column, text in enumerate(row)),
            class_="main" if line in main else None,
        )
        for line, row in enumerate(rows[:MAX_ROWS])
    )
    omitted = len(rows) - MAX_ROWS
    omitted_note = paragraph(f"{omitted:,} more rows are not shown.", note=True) if omitted > 0 else Markup("")
    return scroll_box(Markup(write_table(body, heads, separator="\n")), label) + omitted_note  # noqa: S704


def scroll_box(inner: Markup, label: str) -> Markup:
    """Wrap wide content in a scrollable, labeled box."""
    return Markup('<div class="scroll" role="region" tabindex="0" aria-label="{}">\n{}\n</div>\n').format(
        escape_lines(truncate(label, 60)), inner
    )


def figure_with_caption(svg: Markup, caption: str) -> Markup:
    """Render a picture with a caption below it."""
    return Markup("<figure>{}<figcaption>{}</figcaption></figure>\n").format(svg, caption)


def _cell(text: object, number: bool, scope: str) -> str:
    inner = (
        text
        if isinstance(text, Markup)
        else Markup("<bdi>{}</bdi>").format(escape_lines(truncate(text, MAX_CELL_CHARACTERS)))
    )
    return write_cell(escape(inner), scope, class_="n" if number else None)
