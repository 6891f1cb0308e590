"""Distinguish texts from file names."""

from __future__ import annotations

import os
import re
from pathlib import PurePath

DATA_SUFFIXES = frozenset(
    (
        ".csv",
        ".tsv",
        ".tab",
        ".json",
        ".jsonl",
        ".ndjson",
        ".txt",
        ".parquet",
        ".arrow",
        ".feather",
        ".gz",
        ".zip",
        ".xlsx",
        ".conll",
        ".conllu",
        ".conll2003",
        ".iob",
        ".iob2",
        ".bio",
        ".ner",
    )
)


def is_text(value: str) -> bool:
    """Whether a string is a text: not -, not an existing file, and not a path by its form."""
    if value == "-" or os.path.lexists(_make_valid_path(value)):
        return False
    path = PurePath(_make_valid_path(value))
    suffix = path.suffix.lower()
    space_count = sum(character.isspace() for character in value)
    if suffix in DATA_SUFFIXES and space_count < 2:  # sentences have more spaces than file names
        return False
    if space_count or "://" in value:
        return True
    has_slash = "/" in value or os.sep in value
    return not (
        value.startswith(("./", "../", "/", "~/"))
        or value.endswith("/")
        or (
            has_slash
            and (re.fullmatch(r"\.[a-z][a-z0-9]{0,9}", suffix) or any(character in value for character in "*?["))
        )
    )


def _make_valid_path(value: str) -> str:
    """Make a string safe for system calls: no NUL, and not longer than a path can be."""
    return value.replace("\0", " ")[:4000]
