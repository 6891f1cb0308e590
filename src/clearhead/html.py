"""Results as one line, the writer of HTML tables, and small tables for a notebook, every text in them escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from html import escape

MAX_ROWS = 20
MAX_CHARS = 120
_LEFT_ALIGNED = "text-align:left;font-weight:normal;padding:.15em .8em .15em 0"
_RIGHT_ALIGNED = "text-align:right;font-variant-numeric:tabular-nums;padding:.15em 0 .15em .8em"


def write_table(
    rows: Iterable[str],
    head: Sequence[str] = (),
    *,
    caption: str = "",
    separator: str = "",
    **attributes: str | None,
) -> str:
    """A table of rows and header cells that were written by `write_row` and `write_cell`.

    `caption` is HTML; `between` is put between the parts and after each row, such as a line break.
    """
    parts = [f"<table{_format_attributes(attributes)}>", f"<caption>{caption}</caption>" if caption else None]
    parts += [f"<thead>{write_row(head)}</thead>" if head else None, "<tbody>", *rows, "</tbody></table>"]
    return separator.join(part for part in parts if part is not None)


def write_row(cells: Iterable[str], **attributes: str | None) -> str:
    """A row of cells."""
    return f"<tr{_format_attributes(attributes)}>{''.join(cells)}</tr>"


def write_cell(content: str, scope: str = "", **attributes: str | None) -> str:
    """A cell with some HTML; `scope`: a header of its "col" or its "row"."""
    tag = "th" if scope else "td"
    return f"<{tag}{_format_attributes({'scope': scope or None, **attributes})}>{content}</{tag}>"


def _format_attributes(attributes: Mapping[str, str | None]) -> str:
    """Attributes of an element: `class_` is written class, and those that are None are left out."""
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )


def render_table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]], notes: Sequence[str] = ()) -> str:
    """A title, a table whose first column is names and whose others are figures, and remarks below it."""
    parts = [f"<div><p><strong>{_escape_text(title)}</strong></p>"]
    if rows:
        heads = [
            write_cell(_escape_text(text), "col", style=_RIGHT_ALIGNED if column else _LEFT_ALIGNED)
            for column, text in enumerate(head)
        ]
        parts.append(write_table(map(_write_body_row, rows[:MAX_ROWS]), heads))
    if len(rows) > MAX_ROWS:
        parts.append(f"<p><small>and {len(rows) - MAX_ROWS:,} more</small></p>")
    parts += [f"<p><small>{_escape_text(note)}</small></p>" for note in notes[:MAX_ROWS]]
    return "".join([*parts, "</div>"])


def short_repr(kind: str, *facts: object) -> str:
    """A value as one short line, `Kind(fact, fact)`: facts that are None or empty are left out, long ones are cut."""
    plain = (str(fact) for fact in facts if fact is not None and fact != "")
    return f"{kind}({', '.join(map(_shorten, plain))})"


def _shorten(text: str) -> str:
    short = text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS // 2]}...{text[-MAX_CHARS // 3 :]}"
    return "".join(letter if letter.isprintable() else "?" for letter in short)


def format_number(value: float | None) -> str:
    """A number with four digits after the point, or a dash for what is not defined."""
    return "–" if value is None or value != value else f"{value:.4f}"


def format_interval(low: float, high: float) -> str:
    """An interval."""
    return "" if low != low or high != high else f"{format_number(low)} to {format_number(high)}"


def _write_body_row(row: Sequence[object]) -> str:
    first = write_cell(_escape_text(row[0]), "row", style=_LEFT_ALIGNED)
    return write_row([first, *(write_cell(_escape_text(cell), style=_RIGHT_ALIGNED) for cell in row[1:])])


def _escape_text(text: object) -> str:
    """A text that is escaped, not endless, and in which nothing hides or turns its surroundings around."""
    plain = str(text)
    cut = plain if len(plain) <= MAX_CHARS else plain[: MAX_CHARS - 1] + "…"
    return escape("".join("�" if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in cut))
