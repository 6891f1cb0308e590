"""Texts from a file: one a line, a column of a table, or JSON lines."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from clearhead.cli.streams import input_lines
from clearhead.errors import InputError

MOST_CELL = 64 << 20  # a longer cell than this is a broken file
LIKELY = ("text", "sentence", "content", "question", "title", "body")


def read_texts(
    name: str,
    column: str | None,
    *,
    format: str | None = None,  # noqa: A002
    expected: Sequence[str] = (),
) -> Iterator[str]:
    """Every text of a file (`-` is standard input), by what its ending says it is, read as it is asked for.

    Standard input and .txt hold a text a line, unless the first line names columns or is JSON; `format` says what they
    are, and `expected` are columns that hold the text if they are there.
    """
    from clearhead.data.piped import FORMATS

    path = Path(name)
    if format is not None and format not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}, and it is {format[:40]!r}.")
    if name != "-" and not path.exists():
        raise InputError(f"{name} is not there.")
    if name != "-" and not path.is_file():
        raise InputError(f"{name} is not a file.")
    return _read(name, path, column, format, expected)


def _read(name: str, path: Path, column: str | None, format: str | None, expected: Sequence[str]) -> Iterator[str]:  # noqa: A002
    count = 0
    try:
        for text in _lines(name, path, column, format, expected):
            count += 1
            yield text
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text (byte {error.start}).") from None
    except (OSError, EOFError, zlib.error) as error:  # gzip raises all three
        raise InputError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if not count:
        raise InputError("Standard input holds no text." if name == "-" else f"{name} holds no text.")


def _lines(name: str, path: Path, column: str | None, format: str | None, expected: Sequence[str]) -> Iterator[str]:  # noqa: A002
    if name == "-":
        yield from _rows(input_lines(), "standard input", column, format or _kind_of(""), expected)
        return
    packed = path.suffix.lower() == ".gz"
    inner = path.with_suffix("") if packed else path  # texts.csv of texts.csv.gz
    opened: Any = gzip.open if packed else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        yield from _rows(file, inner.name, column, format or _kind_of(inner.suffix.lower()), expected)


def _kind_of(suffix: str) -> str | None:
    """What a file's ending says; None: its first lines tell it."""
    known = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", "": None, ".txt": None}
    return known.get(suffix, "text")


def _rows(
    file: Iterable[str], name: str, column: str | None, kind: str | None, expected: Sequence[str]
) -> Iterator[str]:
    lines, sign = iter(file), None
    if kind is None:
        known = (*expected, *(() if column is None else (column,)))
        lines, kind, sign = _detected(lines, known, may_be_json=not name.endswith(".txt"))
    if kind in ("csv", "tsv"):
        yield from _table(lines, name, column, sign or ("\t" if kind == "tsv" else ","), expected)
    elif kind == "jsonl":
        yield from _json_lines(lines, name, column, expected)
    elif column is not None:
        raise InputError(f"{name} has no columns: --column is for tables with a header and for JSON lines.")
    else:
        for line in lines:
            yield line.rstrip("\r\n")


def _detected(
    lines: Iterator[str], expected: Sequence[str], *, may_be_json: bool
) -> tuple[Iterator[str], str, str | None]:
    """The same lines, what the first of them say they are, and what separates the cells of a table."""
    from clearhead.data.piped import header_sign, is_json

    first = next(lines, None)
    if first is None:
        return iter(()), "text", None
    if may_be_json and is_json(first) and first.lstrip("\ufeff \t").startswith("{"):
        return chain([first], lines), "jsonl", None
    if header_sign(first, first, expected) is None:  # no header, whatever comes after it
        return chain([first], lines), "text", None  # a line is answered before the next one comes
    second = next(lines, None)
    sign = header_sign(first, second, expected)
    again = chain([first], lines if second is None else chain([second], lines))
    return (again, "text", None) if sign is None else (again, "tsv" if sign == "\t" else "csv", sign)


def _table(
    file: Iterable[str], name: str, column: str | None, delimiter: str, expected: Sequence[str]
) -> Iterator[str]:
    csv.field_size_limit(MOST_CELL)
    # tab-separated files are written without quotes, so a quote there is a letter like any other
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    reader = csv.reader(file, delimiter=delimiter, quoting=quoting, strict=True)
    try:
        header = next(reader, None)
        if header is None:
            return
        header = [cell.lstrip("\ufeff") for cell in header]
        place = header.index(_column(header, name, column, expected))
        for number, row in enumerate(reader, start=2):
            if not row:
                continue
            if len(row) != len(header):
                raise InputError(f"{name}, row {number}: {len(row)} cells, and the header has {len(header)}.")
            yield row[place]
    except csv.Error as error:
        raise InputError(f"{name}, line {reader.line_num}: {error}.") from None


def _json_lines(file: Iterable[str], name: str, column: str | None, expected: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line.lstrip("\ufeff"))
        except (ValueError, RecursionError):
            raise InputError(f"{name}, line {number}: not valid JSON.") from None
        if isinstance(row, dict):
            row = row[_column(list(row), name, column, expected)]
        if not isinstance(row, str):
            raise InputError(f"{name}, line {number}: the text is {type(row).__name__}, expected a string.")
        yield row


def _column(header: list[str], name: str, column: str | None, expected: Sequence[str]) -> str:
    if column is not None:
        if header.count(column) > 1:
            raise InputError(f"{name} has {header.count(column)} columns called {column!r}.")
        if column not in header:
            raise InputError(f"{name} has no column {column!r}; it has {', '.join(header[:20])}.")
        return column
    likely = [one for one in (*expected, *LIKELY) if one in header]
    if len(header) == 1 or likely:
        return likely[0] if likely else header[0]
    raise InputError(f"{name} has the columns {', '.join(header[:20])}; say which one with --column.")
