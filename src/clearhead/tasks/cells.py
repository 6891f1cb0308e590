"""Cells that hold more than a text: lists and objects, as JSON or as Python writes them."""

from __future__ import annotations

from typing import Any

from clearhead.data.labels import parse_label_list

JSON_OPENERS = ("[", "{")  # what JSON in a cell begins with
MISALIGNED_SPAN = "span does not fit"  # what rows are counted under whose spans do not stand where they should


def parse_cell(value: str) -> Any:
    """What a cell says in JSON, or as Python writes a list; the cell itself if it is neither."""
    import json

    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return parse_label_list(value) or value
