"""Results as one line, the writer of HTML tables, and small tables for a notebook, every text in them escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from html import escape

MOST_ROWS = 20
MOST_LETTERS = 120
_LEFT = "text-align:left;font-weight:normal;padding:.15em .8em .15em 0"
_RIGHT = "text-align:right;font-variant-numeric:tabular-nums;padding:.15em 0 .15em .8em"


def write_table(
    rows: Iterable[str],
    head: Sequence[str] = (),
    *,
    caption: str = "",
    between: str = "",
    **attributes: str | None,
) -> str:
    """A table of rows and header cells that were written by `write_row` and `write_cell`.

    `caption` is HTML; `between` is put between the parts and after each row, such as a line break.
    """
    parts = [f"<table{_attributes(attributes)}>", f"<caption>{caption}</caption>" if caption else None]
    parts += [f"<thead>{write_row(head)}</thead>" if head else None, "<tbody>", *rows, "</tbody></table>"]
    return between.join(part for part in parts if part is not None)


def write_row(cells: Iterable[str], **attributes: str | None) -> str:
    """A row of cells."""
    return f"<tr{_attributes(attributes)}>{''.join(cells)}</tr>"


def write_cell(content: str, scope: str = "", **attributes: str | None) -> str:
    """A cell with some HTML; `scope`: a header of its "col" or its "row"."""
    tag = "th" if scope else "td"
    return f"<{tag}{_attributes({'scope': scope or None, **attributes})}>{content}</{tag}>"


def _attributes(attributes: Mapping[str, str | None]) -> str:
    """Attributes of an element: `class_` is written class, and those that are None are left out."""
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )


def table_html(title: str, head: Sequence[str], rows: Sequence[Sequence[object]], notes: Sequence[str] = ()) -> str:
    """A title, a table whose first column is names and whose others are figures, and remarks below it."""
    parts = [f"<div><p><strong>{_shown(title)}</strong></p>"]
    if rows:
        heads = [write_cell(_shown(text), "col", style=_RIGHT if column else _LEFT) for column, text in enumerate(head)]
        parts.append(write_table(map(_row, rows[:MOST_ROWS]), heads))
    if len(rows) > MOST_ROWS:
        parts.append(f"<p><small>and {len(rows) - MOST_ROWS:,} more</small></p>")
    parts += [f"<p><small>{_shown(note)}</small></p>" for note in notes[:MOST_ROWS]]
    return "".join([*parts, "</div>"])


def one_line(kind: str, *facts: object) -> str:
    """A value as one short line, `Kind(fact, fact)`: facts that are None or empty are left out, long ones are cut."""
    plain = (str(fact) for fact in facts if fact is not None and fact != "")
    return f"{kind}({', '.join(map(_cut, plain))})"


def _cut(text: str) -> str:
    short = text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS // 2]}...{text[-MOST_LETTERS // 3 :]}"
    return "".join(letter if letter.isprintable() else "?" for letter in short)


def figure(value: float | None) -> str:
    """A number with four digits after the point, or a dash for what is not defined."""
    return "–" if value is None or value != value else f"{value:.4f}"


def between(low: float, high: float) -> str:
    """An interval."""
    return "" if low != low or high != high else f"{figure(low)} to {figure(high)}"


def _row(row: Sequence[object]) -> str:
    first = write_cell(_shown(row[0]), "row", style=_LEFT)
    return write_row([first, *(write_cell(_shown(cell), style=_RIGHT) for cell in row[1:])])


def _shown(text: object) -> str:
    """A text that is escaped, not endless, and in which nothing hides or turns its surroundings around."""
    plain = str(text)
    cut = plain if len(plain) <= MOST_LETTERS else plain[: MOST_LETTERS - 1] + "…"
    return escape("".join("�" if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in cut))
