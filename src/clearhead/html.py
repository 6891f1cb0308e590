"""Write HTML tables, small tables for notebooks, one-line summaries, numbers and counts; HTML texts are escaped."""

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
    header: Sequence[str] = (),
    *,
    caption: str = "",
    separator: str = "",
    **attributes: str | None,
) -> str:
    """Write a table from rows and header cells written by `write_row` and `write_cell`.

    `caption` is HTML; `separator`, such as a line break, is inserted between parts and after each row.
    """
    parts = [f"<table{_format_attributes(attributes)}>", f"<caption>{caption}</caption>" if caption else None]
    parts += [f"<thead>{write_row(header)}</thead>" if header else None, "<tbody>", *rows, "</tbody></table>"]
    return separator.join(part for part in parts if part is not None)


def write_row(cells: Iterable[str], **attributes: str | None) -> str:
    """Write a table row."""
    return f"<tr{_format_attributes(attributes)}>{''.join(cells)}</tr>"


def write_cell(content: str, scope: str = "", **attributes: str | None) -> str:
    """Write a cell with HTML content; `scope`: "col" or "row" for a header cell."""
    tag = "th" if scope else "td"
    return f"<{tag}{_format_attributes({'scope': scope or None, **attributes})}>{content}</{tag}>"


def _format_attributes(attributes: Mapping[str, str | None]) -> str:
    """Format attributes of an element: `class_` becomes class, None is omitted."""
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )


def render_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]], notes: Sequence[str] = ()) -> str:
    """Render a title, a table with names in the first column and numbers in the others, and notes below it."""
    parts = [f"<div><p><strong>{_escape_text(title)}</strong></p>"]
    if rows:
        header_cells = [
            write_cell(_escape_text(text), "col", style=_RIGHT_ALIGNED if column else _LEFT_ALIGNED)
            for column, text in enumerate(header)
        ]
        parts.append(write_table(map(_write_body_row, rows[:MAX_ROWS]), header_cells))
    if len(rows) > MAX_ROWS:
        parts.append(f"<p><small>and {len(rows) - MAX_ROWS:,} more</small></p>")
    parts += [f"<p><small>{_escape_text(note)}</small></p>" for note in notes[:MAX_ROWS]]
    return "".join([*parts, "</div>"])


def short_repr(kind: str, *facts: object) -> str:
    """Summarize a value in one line, `Kind(fact, fact)`; None and empty facts are omitted, long ones shortened."""
    parts = (str(fact) for fact in facts if fact is not None and fact != "")
    return f"{kind}({', '.join(map(_shorten, parts))})"


def _shorten(text: str) -> str:
    short = text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS // 2]}...{text[-MAX_CHARS // 3 :]}"
    return "".join(letter if letter.isprintable() else "?" for letter in short)


def pluralize(count: int, noun: str, verbs: tuple[str, str] | None = None) -> str:
    """Format a count with its noun, as in `2 rows`, and optionally the singular or plural form of a verb."""
    verb = "" if verbs is None else f" {verbs[count != 1]}"
    return f"{count:,} {noun}{'s' * (count != 1)}{verb}"


def format_number(value: float | None) -> str:
    """Format a number with four decimals, or a dash if it is undefined."""
    return "–" if value is None or value != value else f"{value:.4f}"


def format_interval(low: float, high: float) -> str:
    """Format an interval; empty if it is undefined."""
    return "" if low != low or high != high else f"{format_number(low)} to {format_number(high)}"


def _write_body_row(row: Sequence[object]) -> str:
    header_cell = write_cell(_escape_text(row[0]), "row", style=_LEFT_ALIGNED)
    return write_row([header_cell, *(write_cell(_escape_text(cell), style=_RIGHT_ALIGNED) for cell in row[1:])])


def _escape_text(text: object) -> str:
    """Escape a text, limit its length, and replace control and bidirectional formatting characters."""
    full_text = str(text)
    shortened = full_text if len(full_text) <= MAX_CHARS else full_text[: MAX_CHARS - 1] + "…"
    return escape("".join("�" if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in shortened))
