"""Detect the format of pipes: one text per line, unless the first lines are a table or JSON."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection

from clearhead.data.names import LABEL_NAMES, PAIR_NAMES, TEXT_NAMES, normalize_name
from clearhead.data.sources.delimited import DELIMITERS

FORMATS = ("csv", "tsv", "jsonl", "text")  # that can be set
FORMAT_DELIMITERS = {"csv": ",", "tsv": "\t"}
COLUMN_NAME = re.compile(r"[^\W\d_]?[\w#./()-]*( [\w#./()-]+){0,2}")  # not a sentence, no final punctuation
ALL_TEXT_NAMES = frozenset((*TEXT_NAMES, *(name for pair in PAIR_NAMES for name in pair)))
JSON_START = re.compile(r'\s*(\{\s*["}]|\[\s*[{\]])')
SINGLE_COLUMN_NAMES = ("text",)  # headers of tables with one column


def is_json(head: str) -> bool:
    """Whether a pipe starts with a JSON object or a list of objects, and not with a text in brackets."""
    return JSON_START.match(head.lstrip("\ufeff")) is not None


def detect_header_delimiter(first_line: str, second_line: str | None, expected: Collection[str] = ()) -> str | None:
    """Detect the delimiter of a table whose first line is a header; None: one text per line.

    All cells of a header are plausible names, one of them an expected or usual name of a text column, and the second
    line has as many cells. If all names are expected, the second line does not matter.
    """
    first_line = first_line.lstrip("\ufeff").rstrip("\r\n")
    for delimiter in DELIMITERS:
        cells = [cell.strip() for cell in _split_cells(first_line, delimiter)]
        if len(set(cells)) > 1 and set(cells) <= set(expected):
            return delimiter
    if second_line is None:
        return None
    for delimiter in DELIMITERS:
        cells = _split_cells(first_line, delimiter) if delimiter in first_line else []
        is_header = len(cells) > 1 and _are_names(cells, expected)
        if is_header and (
            second_line.count('"') % 2 or len(_split_cells(second_line.rstrip("\r\n"), delimiter)) == len(cells)
        ):
            return delimiter
    name = first_line.strip().strip('"')
    if name in (*expected, *SINGLE_COLUMN_NAMES) and (
        second_line.count('"') % 2 or len(_split_cells(second_line.rstrip("\r\n"), ",")) == 1
    ):
        return ","
    return None


def guess_table_delimiter(lines: list[str]) -> str | None:
    """Guess the delimiter of lines that look like a table with an unknown header; None: not a table."""
    rows = [line for line in lines if line.strip()]
    for delimiter in DELIMITERS:
        counts = {len(_split_cells(row.rstrip("\r\n"), delimiter)) for row in rows}
        cells = _split_cells(rows[0].rstrip("\r\n"), delimiter) if rows else []
        if len(rows) > 2 and len(counts) == 1 and len(cells) > 1 and all(_is_name(cell) for cell in cells):
            return delimiter
    return None


def _split_cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return line.split(delimiter)


def _are_names(cells: list[str], expected: Collection[str]) -> bool:
    filled = [cell for cell in cells if cell]
    has_known_name = any(cell in expected or normalize_name(cell) in ALL_TEXT_NAMES for cell in filled)
    return (
        has_known_name
        and len(set(filled)) == len(filled)
        and all(cell in expected or _is_name(cell) for cell in filled)
    )


def _is_name(cell: str) -> bool:
    """Whether a cell can be a column name; in a sentence, a space follows the comma."""
    return cell == cell.strip() and (COLUMN_NAME.fullmatch(cell) is not None or normalize_name(cell) in LABEL_NAMES)
