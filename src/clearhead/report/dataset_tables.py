"""An inspection as rows of tables and bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clearhead.report.formatting import cut

if TYPE_CHECKING:
    from clearhead.data import Columns, Duplicates, Inspection

MOST_BARS = 30
ROLES = (("text", "Text"), ("text_b", "Second text"), ("label", "Label"), ("id", "Id"), ("split", "Split"))


@dataclass(frozen=True, kw_only=True)
class Bar:
    """How many rows have a label."""

    name: str
    rows: int
    share: float  # of all rows
    width: float  # of the longest bar, in percent
    rest: bool = False  # several labels together


@dataclass(frozen=True, kw_only=True)
class AlikeRow:
    """Rows that are the same in some way."""

    name: str
    texts: int
    rows: int
    example: str


def roles(columns: Columns) -> list[tuple[str, str]]:
    """Which column plays which part."""
    return [(name, getattr(columns, key)) for key, name in ROLES if getattr(columns, key) is not None]


def balance(inspection: Inspection) -> list[Bar]:
    """The labels as bars, most frequent first; the rarest of very many together."""
    if not inspection.labels:
        return []
    items = sorted(inspection.labels.items(), key=lambda item: -item[1])
    longest, total = max(items[0][1], 1), max(inspection.rows, 1)
    most = MOST_BARS if len(items) > MOST_BARS + 1 else len(items)
    bars = [Bar(name=name, rows=rows, share=rows / total, width=100 * rows / longest) for name, rows in items[:most]]
    others = items[most:]
    if others:
        rows = sum(count for _, count in others)
        width = min(100 * rows / longest, 100.0)
        bars.append(Bar(name=f"{len(others):,} other labels", rows=rows, share=rows / total, width=width, rest=True))
    return bars


def alike_rows(inspection: Inspection) -> list[AlikeRow]:
    """Duplicates, leaks and conflicts that there are; leaks only where there are parts to leak between."""
    kinds = [("Same text again", inspection.exact), ("Nearly the same text again", inspection.near)]
    if len(inspection.parts) > 1:
        kinds.append(("Same text in several parts", inspection.leaks))
        kinds.append(("Nearly the same text in several parts", inspection.near_leaks))
    kinds.append(("Same text, different labels", inspection.conflicts))
    return [
        AlikeRow(name=name, texts=alike.groups, rows=alike.rows, example=_example(alike))
        for name, alike in kinds
        if alike.groups
    ]


def _example(alike: Duplicates) -> str:
    return "" if not alike.examples else places(alike.examples[0])


def places(group: Sequence[tuple[str, int]], most: int = 4) -> str:
    """The rows of a group, as people would look them up."""
    names = [f"row {number:,}" if part == "all" else f"{cut(part, 20)} row {number:,}" for part, number in group[:most]]
    return ", ".join(names) + (", …" if len(group) > most else "")
