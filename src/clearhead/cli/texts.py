"""Texts from a file: one a line, a column of a table, or JSON lines."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

from clearhead.errors import InputError

MOST_CELL = 64 << 20  # a longer cell than this is a broken file
LIKELY = ("text", "sentence", "content", "question", "title", "body")


def read_texts(name: str, column: str | None) -> Iterator[str]:
    """Every text of a file (`-` is standard input), by what its ending says it is, read as it is asked for."""
    path = Path(name)
    if name != "-" and not path.exists():
        raise InputError(f"{name} is not there.")
    if name != "-" and not path.is_file():
        raise InputError(f"{name} is not a file.")
    return _read(name, path, column)


def _read(name: str, path: Path, column: str | None) -> Iterator[str]:
    count = 0
    try:
        for text in _lines(name, path, column):
            count += 1
            yield text
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text (byte {error.start}).") from None
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}.") from None
    if not count:
        raise InputError("Standard input holds no text." if name == "-" else f"{name} holds no text.")


def _lines(name: str, path: Path, column: str | None) -> Iterator[str]:
    if name == "-":
        yield from (line.rstrip("\r\n") for line in sys.stdin)
        return
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from _rows(file, path, column)


def _rows(file: IO[str], path: Path, column: str | None) -> Iterator[str]:
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        yield from _table(file, path, column, "\t" if kind == ".tsv" else ",")
    elif kind in (".jsonl", ".ndjson"):
        yield from _json_lines(file, path, column)
    elif column is not None:
        raise InputError(f"{path.name} has no columns: --column is for .csv, .tsv and .jsonl.")
    else:
        for line in file:
            yield line.rstrip("\r\n")


def _table(file: IO[str], path: Path, column: str | None, delimiter: str) -> Iterator[str]:
    csv.field_size_limit(MOST_CELL)
    # tab-separated files are written without quotes, so a quote there is a letter like any other
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    reader = csv.reader(file, delimiter=delimiter, quoting=quoting, strict=True)
    try:
        header = next(reader, None)
        if header is None:
            return
        place = header.index(_column(header, path, column))
        for number, row in enumerate(reader, start=2):
            if not row:
                continue
            if len(row) != len(header):
                raise InputError(f"{path.name}, row {number}: {len(row)} cells, and the header has {len(header)}.")
            yield row[place]
    except csv.Error as error:
        raise InputError(f"{path.name}, line {reader.line_num}: {error}.") from None


def _json_lines(file: IO[str], path: Path, column: str | None) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{path.name}, line {number}: not valid JSON.") from None
        if isinstance(row, dict):
            row = row[_column(list(row), path, column)]
        if not isinstance(row, str):
            raise InputError(f"{path.name}, line {number}: the text is {type(row).__name__}, expected a string.")
        yield row


def _column(header: list[str], path: Path, column: str | None) -> str:
    if column is not None:
        if header.count(column) > 1:
            raise InputError(f"{path.name} has {header.count(column)} columns called {column!r}.")
        if column not in header:
            raise InputError(f"{path.name} has no column {column!r}; it has {', '.join(header[:20])}.")
        return column
    likely = [name for name in LIKELY if name in header]
    if len(header) == 1 or likely:
        return likely[0] if likely else header[0]
    raise InputError(f"{path.name} has the columns {', '.join(header[:20])}; say which one with --column.")
