"""Cells with lists and objects, written as JSON or as Python literals."""

from __future__ import annotations

from typing import Any

from clearhead.data.labels import parse_label_list

JSON_OPENERS = ("[", "{")  # first characters of JSON in a cell
MISALIGNED_SPAN = "span does not fit"  # problem under which rows with misaligned spans are counted


def parse_cell(cell: str) -> Any:
    """Parse JSON or a Python list in a cell; the cell itself if it is neither."""
    import json

    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return parse_label_list(cell) or cell
