"""Stream texts to embed, translate or continue from files, tables, pipes and Python values."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from clearhead.caller import setting
from clearhead.data.column_layout import ColumnLayout, Role
from clearhead.data.column_resolver import resolve_header
from clearhead.data.columns import ColumnRoles
from clearhead.data.sources.conll import SUFFIXES
from clearhead.data.sources.delimited import REASONS, Dialect, read_records, split_head
from clearhead.data.sources.files import (
    MAX_NAME_CHARS,
    Blob,
    Line,
    decode_head,
    detect_encoding,
    detect_newline,
    open_path,
    read_lines,
)
from clearhead.data.sources.header import WORD
from clearhead.data.sources.piped import FORMAT_DELIMITERS, FORMATS, detect_header_delimiter, is_json
from clearhead.data.sources.readers import open_source
from clearhead.data.sources.source import WRONG_ENCODING, BadRow, Row, Source
from clearhead.errors import InputError
from clearhead.files import to_printable

TEXT_COLUMN = ColumnLayout(
    roles=(
        Role(
            name="text",
            setting_name="column",
            setting_value=None,
            column_names=("text", "sentence", "content", "question", "title", "body"),
            missing_message="{source} has the columns {columns}; name the text column with {setting}.",
        ),
    ),
    header_only=True,
    split_names=(),
)
TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".json", ".parquet", ".pq", *SUFFIXES)  # read by row and column
JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")


def read_texts(
    source: Any,
    column: str | None = None,
    *,
    format: str | None = None,  # noqa: A002
    expected: Sequence[str] = (),
) -> Iterator[str]:
    """Stream the texts of a file, a handle, a table or an iterable of texts.

    Tables and JSON files are detected by their suffix and read as by `open_source`. Pipes, .txt and other files contain
    one text per line, unless the first line is a header or JSON; `format` overrides this. `expected` are names of text
    columns. Each line is yielded before the next one is read; empty lines are texts, too.
    """
    if format is not None and format not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}, got {format[:40]!r}.")
    if isinstance(source, str | os.PathLike):
        return _require_texts(_read_path(Path(source), column, format, expected), str(source))
    if callable(getattr(source, "read", None)):
        name = _name_handle(source)
        return _require_texts(_read_handle(source, name, column, format, expected), name[:1].upper() + name[1:])
    if isinstance(source, list | tuple) or (isinstance(source, Iterator) and not hasattr(source, "schema")):
        return _read_values(source, column, expected)
    return _read_column(open_source(source), column, expected)


def is_text_source(source: Any) -> bool:
    """Whether a value contains texts and is not a text itself; a string is a text unless it names a file."""
    if not isinstance(source, str):
        return True
    try:
        return Path(source).is_file()
    except (OSError, ValueError):  # too long or invalid as a file name
        return False


def _require_texts(texts: Iterator[str], name: str) -> Iterator[str]:
    """Yield the same texts; raise InputError if there are none."""
    count = 0
    for text in texts:
        count += 1
        yield text
    if not count:
        raise InputError(f"{name} contains no text.")


def _read_path(path: Path, column: str | None, format: str | None, expected: Sequence[str]) -> Iterator[str]:  # noqa: A002
    if path.is_dir():
        return _read_column(open_source(path), column, expected)
    blob = open_path(path)
    head = blob.head.lstrip(b"\xef\xbb\xbf \t\r\n")
    is_json_list = head[:1] == b"[" and blob.suffix == "" and is_json(head[:80].decode("utf-8", "replace"))
    if format is None and blob.head and (blob.suffix in TABLE_SUFFIXES or head.startswith(b"PAR1") or is_json_list):
        table = _reopen_with_header(open_source(path, expected=expected), column)
        return _read_column(table, column, expected, _read_header(blob, table))
    line_format = format or (
        "jsonl" if blob.suffix in JSON_LINES_SUFFIXES else None if blob.suffix in ("", ".txt") else "text"
    )
    return _read_lines(_read_file_lines(blob), blob.name, column, line_format, expected)


def _reopen_with_header(source: Source, column: str | None) -> Source:
    """Reopen a table whose first row is a header after all: it contains the requested column, or is a single word."""
    if source.has_header is not False or source.delimiter is None or source.path is None:
        return source
    first_row = next((row for row in source.sample(1) if isinstance(row, Row)), None)
    cells = [] if first_row is None else [str(cell) for cell in first_row.values.values()]
    is_header = column in cells if column is not None else len(cells) == 1 and WORD.fullmatch(cells[0]) is not None
    return open_source(source.path, header=True) if is_header else source


def _read_header(blob: Blob, source: Source) -> Sequence[str]:
    """Read the header of a file as it is; `Source.columns` renames duplicates."""
    if not source.has_header or source.delimiter is None or source.encoding is None or len(source.delimiter) > 1:
        return source.columns
    dialect = Dialect(delimiter=source.delimiter, quotes=source.quotes is not False)
    rows = read_records(split_head(decode_head(blob, source.encoding)), dialect)
    full_rows = (row.cells for row in rows if len(row.cells) == len(source.columns))
    return [cell.strip() for cell in next(full_rows, source.columns)]


def _read_column(
    source: Source, column: str | None, expected: Sequence[str], header: Sequence[str] | None = None
) -> Iterator[str]:
    """Yield the texts of a column."""
    text_column = _resolve_text_column(source.columns if header is None else header, source.name, column, expected)
    for row in source.rows():
        if isinstance(row, BadRow):
            raise InputError(f"{source.name}, {row}.")
        value = row.values.get(text_column)
        if not isinstance(value, str):
            found_type = "missing" if value is None else type(value).__name__
            raise InputError(f"{source.name}, row {row.number:,}: the text is {found_type}, expected a string.")
        yield value


def _read_values(values: Iterable[Any], column: str | None, expected: Sequence[str]) -> Iterator[str]:
    """Yield texts, or the texts of a column of rows."""
    iterator = iter(values)
    first = next(iterator, None)
    rows = chain(() if first is None else (first,), iterator)
    if first is not None and not isinstance(first, str):
        yield from _read_column(open_source(rows), column, expected)
        return
    if column is not None:
        raise InputError(f"{setting('column')} is for tables, but the input is a list of texts.")
    for number, text in enumerate(rows):
        if not isinstance(text, str):
            raise InputError(f"texts[{number}] is {type(text).__name__}, expected a text.")
        yield text


def _name_handle(handle: Any) -> str:
    """Name an open file for messages."""
    if sys.stdin is not None and handle in (sys.stdin, getattr(sys.stdin, "buffer", None)):
        return "standard input"
    name = getattr(handle, "name", None)
    return to_printable(name, MAX_NAME_CHARS) if isinstance(name, str) and name not in ("", "<stdin>") else "the input"


def _read_handle(
    handle: Any,
    name: str,
    column: str | None,
    format: str | None,  # noqa: A002
    expected: Sequence[str],
) -> Iterator[str]:
    """Read an open file: as a table if its name says so, otherwise line by line."""
    path = Path(name.lower())
    suffix = (path.with_suffix("") if path.suffix == ".gz" else path).suffix
    if format is None and (suffix in TABLE_SUFFIXES or path.suffix == ".gz"):
        return _read_column(open_source(handle, expected=expected), column, expected)
    line_format = format or ("jsonl" if suffix in JSON_LINES_SUFFIXES else None if suffix in ("", ".txt") else "text")
    return _read_lines(_read_handle_lines(handle, name), name, column, line_format, expected)


def _read_file_lines(blob: Blob) -> Iterator[Line]:
    """Yield the lines of a file in its detected encoding; undecodable lines raise InputError."""
    encoding, encoding_title = detect_encoding(blob, None)
    for number, line, problem in read_lines(blob, encoding, detect_newline(decode_head(blob, encoding))):
        if problem == WRONG_ENCODING:
            raise InputError(f"{blob.name} is not {encoding_title} text (line {number:,}).")
        if problem is not None:
            raise InputError(f"{blob.name}, line {number:,}: {REASONS[problem]}.")
        yield number, line, None


def _read_handle_lines(handle: Any, name: str) -> Iterator[Line]:
    """Yield the lines of a pipe as they arrive, decoded as UTF-8 regardless of the locale."""
    is_text = isinstance(handle, io.TextIOBase) and not hasattr(handle, "buffer")
    text: Any = handle if is_text else io.TextIOWrapper(getattr(handle, "buffer", handle), encoding="utf-8-sig")
    try:
        yield from ((number, line, None) for number, line in enumerate(text, start=1))
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text (byte {error.start}).") from None
    except (OSError, EOFError) as error:
        raise InputError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    finally:
        if text is not handle:
            with suppress(OSError, ValueError):
                text.detach()


def _read_lines(
    lines: Iterator[Line], name: str, column: str | None, line_format: str | None, expected: Sequence[str]
) -> Iterator[str]:
    """Yield the texts of lines: plain texts, JSON lines, or the rows of a table with a header."""
    delimiter = FORMAT_DELIMITERS.get(line_format or "")
    if line_format is None:
        expected_names = (*expected, *(() if column is None else (column,)))
        lines, line_format, delimiter = _detect_format(
            lines, expected_names, may_be_json=not name.endswith((".txt", ".txt.gz"))
        )
    if delimiter is not None:
        yield from _read_table(lines, name, column, delimiter, expected)
    elif line_format == "jsonl":
        yield from _read_json_lines(lines, name, column, expected)
    elif column is not None:
        raise InputError(f"{name} has no columns: {setting('column')} is for tables with a header and for JSON lines.")
    else:
        for _, line, _ in lines:
            yield line.rstrip("\r\n")


def _detect_format(
    lines: Iterator[Line], expected: Sequence[str], *, may_be_json: bool
) -> tuple[Iterator[Line], str, str | None]:
    """Detect the format of lines; return all lines, the format, and the delimiter of a table."""
    first_line = next(lines, None)
    if first_line is None:
        return iter(()), "text", None
    if may_be_json and is_json(first_line[1]) and first_line[1].lstrip("\ufeff \t").startswith("{"):
        return chain([first_line], lines), "jsonl", None
    if detect_header_delimiter(first_line[1], first_line[1], expected) is None:  # not a header, whatever follows
        return chain([first_line], lines), "text", None  # do not wait for the second line
    second_line = next(lines, None)
    delimiter = detect_header_delimiter(first_line[1], None if second_line is None else second_line[1], expected)
    all_lines = chain([first_line], lines if second_line is None else chain([second_line], lines))
    return all_lines, "text", delimiter


def _read_table(
    lines: Iterator[Line], name: str, column: str | None, delimiter: str, expected: Sequence[str]
) -> Iterator[str]:
    # tab-separated files do not quote cells: a quote is an ordinary character
    rows = read_records(lines, Dialect(delimiter=delimiter, quotes=delimiter != "\t"))
    column_index, width = 0, 0
    for number, row in enumerate(rows, start=1):
        if row.problem is not None:
            raise InputError(f"{name}, line {row.line:,}: {row.reason}.")
        if number == 1:
            header = [cell.lstrip("\ufeff") for cell in row.cells]
            column_index, width = header.index(_resolve_text_column(header, name, column, expected)), len(header)
        elif len(row.cells) != width:
            raise InputError(f"{name}, row {number}: {len(row.cells)} cells, expected {width} as in the header.")
        else:
            yield row.cells[column_index]


def _read_json_lines(lines: Iterator[Line], name: str, column: str | None, expected: Sequence[str]) -> Iterator[str]:
    """Yield the texts of JSON lines: objects with a text column, or strings."""
    for number, line, _ in lines:
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line.lstrip("\ufeff"))
        except (ValueError, RecursionError):
            raise InputError(f"{name}, line {number}: not valid JSON.") from None
        if isinstance(row, Mapping):
            row = row[_resolve_text_column(list(row), name, column, expected)]
        if not isinstance(row, str):
            raise InputError(f"{name}, line {number}: the text is {type(row).__name__}, expected a string.")
        yield row


def _resolve_text_column(header: Sequence[str], name: str, column: str | None, expected: Sequence[str]) -> str:
    """Resolve the text column: the named one, an expected one, one with a usual name, or the only one."""
    if column is not None and header.count(column) > 1:
        raise InputError(f"{name} has {header.count(column)} columns called {column!r}.")
    named_column = (
        column
        if column is not None
        else next((expected_name for expected_name in expected if expected_name in header), None)
    )
    return resolve_header(header, name, TEXT_COLUMN, ColumnRoles(text=named_column)).text


__all__ = ["is_text_source", "read_texts"]
