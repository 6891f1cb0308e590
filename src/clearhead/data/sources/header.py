"""Detect whether the first row of a table is a header, and name the columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from clearhead.data.names import KNOWN_NAMES, normalize_name

NUMBER = re.compile(r"\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*%?\s*")
WORD = re.compile(r"[^\W\d][\w.\-/#]*")


def is_number(cell: str) -> bool:
    """Whether a cell is a number."""
    return NUMBER.fullmatch(cell) is not None


def has_header(first_row: Sequence[str], other_rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row looks like column names, and not like the rows below it."""
    cells = [cell.strip() for cell in first_row]
    if all(is_number(cell) for cell in cells):  # 0,1,2 above texts are default names of pandas
        return any(row and not any(is_number(cell) for cell in row) for row in other_rows[:1]) and len(cells) > 1
    scores = [
        _score_header_cell(cell, [row[column].strip() for row in other_rows]) for column, cell in enumerate(cells)
    ]
    if sum(scores) == 0:
        return all(WORD.fullmatch(cell) for cell in cells if cell) and len(set(cells)) == len(cells) > 1
    return sum(scores) > 0


def _score_header_cell(cell: str, below: list[str]) -> int:
    """Score how much a cell looks like the name of the column below it; negative: it looks like data."""
    if not cell:
        return 0
    has_few_values = len(set(below)) <= 0.5 * len(below) or len(below) < 4
    if cell in below and has_few_values:
        return -3
    if normalize_name(cell) in KNOWN_NAMES:
        return 3
    words = len(cell.split())
    if len(cell) > 64 or words > 7:
        return -3
    number_count = sum(map(is_number, below))
    if is_number(cell):
        return -2 if below and number_count >= 0.9 * len(below) else -1
    if below and number_count >= 0.9 * len(below):
        return 2
    average_length = sum(map(len, below)) / len(below) if below else 0
    if WORD.fullmatch(cell):
        space_count = sum(" " in value for value in below)
        return 1 if below and space_count > 0.5 * len(below) else 0
    return 1 if words < 3 and average_length > 4 * len(cell) else 0


def header_to_column_names(header: Sequence[str]) -> tuple[str, ...]:
    """Convert a header to unique column names; empty cells get a numbered name."""
    return make_unique_names([cell.strip() or f"column{number}" for number, cell in enumerate(header, start=1)])


def make_unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """Make names unique by appending numbers to duplicates."""
    next_numbers: dict[str, int] = {}  # avoids quadratic time if thousands of columns have the same name
    for name in names:
        unique, number = name, next_numbers.get(name, 2)
        while unique in next_numbers:
            unique, number = f"{name}.{number}", number + 1
        next_numbers[name] = number
        next_numbers.setdefault(unique, 2)
    return tuple(next_numbers)


def default_column_names(count: int) -> tuple[str, ...]:
    """Name the columns of a table without a header."""
    return tuple(f"column{number}" for number in range(1, count + 1))
