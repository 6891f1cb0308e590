"""A section that somebody else brings to the report, and what it can be made of."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from clearhead.errors import InputError
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
    heads = Markup("").join(_cell("th", text, place in numbers, "col") for place, text in enumerate(head))
    body = Markup("").join(
        Markup("<tr{}>{}</tr>\n").format(
            Markup(' class="main"') if line in main else "",
            Markup("").join(
                _cell("td" if place else "th", text, place in numbers, None if place else "row")
                for place, text in enumerate(row)
            ),
        )
        for line, row in enumerate(rows[:MOST_ROWS])
    )
    left = len(rows) - MOST_ROWS
    more = paragraph(f"And {left:,} more.", note=True) if left > 0 else Markup("")
    return Markup(
        '<div class="scroll" role="region" tabindex="0" aria-label="{}">\n'
        "<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table>\n</div>\n{}"
    ).format(lines(cut(label, 60)), heads, body, more)


def _cell(tag: str, text: object, number: bool, scope: str | None) -> Markup:
    inner = text if isinstance(text, Markup) else Markup("<bdi>{}</bdi>").format(lines(cut(text, MOST_CELL)))
    kind = Markup(' class="n"') if number else ""
    scoped = Markup("") if scope is None else Markup(' scope="{}"').format(scope)
    return Markup("<{0}{1}{2}>{3}</{0}>").format(Markup(tag), scoped, kind, escape(inner))  # noqa: S704
