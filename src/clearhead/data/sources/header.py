"""Whether the first row of a table names its columns, and what the columns are called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from clearhead.data.names import KNOWN_NAMES, normalize_name

NUMBER = re.compile(r"\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*%?\s*")
WORD = re.compile(r"[^\W\d][\w.\-/#]*")


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number."""
    return NUMBER.fullmatch(cell) is not None


def has_header(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether a first row looks like names rather than like the rows below it."""
    cells = [cell.strip() for cell in first]
    if all(is_number(cell) for cell in cells):  # 0,1,2 over texts are names that pandas gave
        return any(row and not any(is_number(cell) for cell in row) for row in others[:1]) and len(cells) > 1
    votes = [_score_header_cell(cell, [row[place].strip() for row in others]) for place, cell in enumerate(cells)]
    if sum(votes) == 0:
        return all(WORD.fullmatch(cell) for cell in cells if cell) and len(set(cells)) == len(cells) > 1
    return sum(votes) > 0


def _score_header_cell(cell: str, below: list[str]) -> int:
    """How much a cell looks like the name of the column below it; data is below zero."""
    if not cell:
        return 0
    few = len(set(below)) <= 0.5 * len(below) or len(below) < 4
    if cell in below and few:
        return -3
    if normalize_name(cell) in KNOWN_NAMES:
        return 3
    words = len(cell.split())
    if len(cell) > 64 or words > 7:
        return -3
    numbers = sum(map(is_number, below))
    if is_number(cell):
        return -2 if below and numbers >= 0.9 * len(below) else -1
    if below and numbers >= 0.9 * len(below):
        return 2
    average = sum(map(len, below)) / len(below) if below else 0
    if WORD.fullmatch(cell):
        spaced = sum(" " in value for value in below)
        return 1 if below and spaced > 0.5 * len(below) else 0
    return 1 if words < 3 and average > 4 * len(cell) else 0


def header_to_column_names(first: Sequence[str]) -> tuple[str, ...]:
    """The names of a header, each of them once; a cell without a name is called by its place."""
    return make_unique_names([cell.strip() or f"column{place}" for place, cell in enumerate(first, start=1)])


def make_unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """The same names, with a number behind those that came before."""
    taken: dict[str, int] = {}  # and the next number for each; ten thousand columns may share a name
    for name in names:
        unique, copy = name, taken.get(name, 2)
        while unique in taken:
            unique, copy = f"{name}.{copy}", copy + 1
        taken[name] = copy
        taken.setdefault(unique, 2)
    return tuple(taken)


def default_column_names(count: int) -> tuple[str, ...]:
    """Names for the columns of a table that has none."""
    return tuple(f"column{place}" for place in range(1, count + 1))
