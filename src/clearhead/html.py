"""Results as one line, and as small tables in a notebook: HTML that stands alone, every text in it escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from html import escape

MOST_ROWS = 20
MOST_LETTERS = 120
_LEFT = "text-align:left;font-weight:normal;padding:.15em .8em .15em 0"
_RIGHT = "text-align:right;font-variant-numeric:tabular-nums;padding:.15em 0 .15em .8em"


def table_html(title: str, head: Sequence[str], rows: Sequence[Sequence[object]], notes: Sequence[str] = ()) -> str:
    """A title, a table whose first column is names and whose others are figures, and remarks below it."""
    made = [f"<div><p><strong>{_shown(title)}</strong></p>"]
    if rows:
        heads = "".join(
            f'<th scope="col" style="{_RIGHT if place else _LEFT}">{_shown(text)}</th>'
            for place, text in enumerate(head)
        )
        made.append(f"<table><thead><tr>{heads}</tr></thead><tbody>")
        made += [_row(row) for row in rows[:MOST_ROWS]]
        made.append("</tbody></table>")
    if len(rows) > MOST_ROWS:
        made.append(f"<p><small>and {len(rows) - MOST_ROWS:,} more</small></p>")
    made += [f"<p><small>{_shown(note)}</small></p>" for note in notes[:MOST_ROWS]]
    return "".join([*made, "</div>"])


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
    first = f'<th scope="row" style="{_LEFT}">{_shown(row[0])}</th>'
    others = "".join(f'<td style="{_RIGHT}">{_shown(cell)}</td>' for cell in row[1:])
    return f"<tr>{first}{others}</tr>"


def _shown(text: object) -> str:
    """A text that is escaped, not endless, and in which nothing hides or turns its surroundings around."""
    plain = str(text)
    cut = plain if len(plain) <= MOST_LETTERS else plain[: MOST_LETTERS - 1] + "…"
    return escape("".join("�" if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in cut))
