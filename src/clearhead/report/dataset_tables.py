"""Turn a dataset inspection into table rows and bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clearhead.report.formatting import truncate

if TYPE_CHECKING:
    from clearhead.data import Columns, Duplicates, Inspection

MAX_BARS = 30
ROLE_NAMES = (("text", "Text"), ("text_b", "Second text"), ("label", "Label"), ("id", "Id"), ("split", "Split"))


@dataclass(frozen=True, kw_only=True)
class LabelBar:
    """The number of rows with one label."""

    name: str
    rows: int
    share: float  # of all rows
    width: float  # of the longest bar, in percent
    is_other: bool = False  # the rare labels, summed


@dataclass(frozen=True, kw_only=True)
class DuplicateRow:
    """One kind of duplicates, leaks or conflicts."""

    name: str
    texts: int
    rows: int
    example: str


def list_roles(columns: Columns) -> list[tuple[str, str]]:
    """List the columns by role."""
    return [(name, getattr(columns, key)) for key, name in ROLE_NAMES if getattr(columns, key) is not None]


def list_label_bars(inspection: Inspection) -> list[LabelBar]:
    """Return a bar per label, most frequent first; many rare labels share one bar."""
    if not inspection.labels:
        return []
    entries = sorted(inspection.labels.items(), key=lambda entry: -entry[1])
    longest, total = max(entries[0][1], 1), max(inspection.rows, 1)
    max_bars = MAX_BARS if len(entries) > MAX_BARS + 1 else len(entries)
    bars = [
        LabelBar(name=name, rows=rows, share=rows / total, width=100 * rows / longest)
        for name, rows in entries[:max_bars]
    ]
    others = entries[max_bars:]
    if others:
        rows = sum(count for _, count in others)
        width = min(100 * rows / longest, 100.0)
        bars.append(
            LabelBar(name=f"{len(others):,} other labels", rows=rows, share=rows / total, width=width, is_other=True)
        )
    return bars


def list_duplicates(inspection: Inspection) -> list[DuplicateRow]:
    """List duplicates, leaks and conflicts that occur; leaks need at least two parts."""
    kinds = [("Exact duplicates", inspection.exact), ("Near duplicates", inspection.near)]
    if len(inspection.parts) > 1:
        kinds.append(("Exact duplicates across parts", inspection.leaks))
        kinds.append(("Near duplicates across parts", inspection.near_leaks))
    kinds.append(("Same text, different labels", inspection.conflicts))
    return [
        DuplicateRow(name=name, texts=alike.groups, rows=alike.rows, example=_format_example(alike))
        for name, alike in kinds
        if alike.groups
    ]


def _format_example(alike: Duplicates) -> str:
    return "" if not alike.examples else format_places(alike.examples[0])


def format_places(group: Sequence[tuple[str, int]], max_places: int = 4) -> str:
    """Format the row numbers of a group of duplicates."""
    names = [
        f"row {number:,}" if part == "all" else f"{truncate(part, 20)} row {number:,}"
        for part, number in group[:max_places]
    ]
    return ", ".join(names) + (", …" if len(group) > max_places else "")
