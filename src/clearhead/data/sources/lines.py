"""Stream texts from files for pre-training: lines of plain text of any length, or columns of a table."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clearhead.caller import setting
from clearhead.data.column_layout import ColumnLayout, Role
from clearhead.data.column_resolver import resolve_columns
from clearhead.data.columns import format_columns
from clearhead.data.sources.files import STREAM_ERRORS, SURROGATE, Blob, detect_encoding, open_handle, open_path
from clearhead.data.sources.readers import open_source
from clearhead.data.sources.source import BadRow, Source
from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.html import pluralize

CHUNK_CHARS = 1 << 16  # a longer line is split into chunks
TABLES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet", ".pq")
TEXT_COLUMNS = ColumnLayout(
    roles=(
        Role(
            name="text",
            setting_value="a,b",
            column_names=("text", "sentence", "content", "body", "document"),
            missing_message="{source} has the columns {columns}; name the text columns with {setting}.",
        ),
    ),
    header_only=True,
    split_names=(),
)
MAX_BAD_SHARE = 0.1  # a file with a larger share of unreadable lines or rows is rejected


def read_line_texts(
    files: Sequence[Any], columns: str | Sequence[str] | None, encoding: str | None, notes: list[str]
) -> Iterator[str]:
    """Yield the texts of files and open handles in order; warnings are appended to `notes`."""
    for file in files:
        name = to_printable(getattr(file, "name", None) or file, 300)
        is_table_file = isinstance(file, str | Path) and is_table(Path(file))
        texts = (
            read_cells(file, columns, encoding, notes)
            if is_table_file or columns is not None
            else _read_nonempty_lines(file, encoding, notes)
        )
        has_text = False
        for text in texts:
            has_text = has_text or not text.isspace()
            yield text
        if not has_text:
            raise InputError(f"{name} contains no text.")


def is_table(path: Path) -> bool:
    """Whether a file is a table with rows and columns."""
    return _get_suffix(path) in TABLES


def _get_suffix(path: Path) -> str:
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def _read_nonempty_lines(file: Any, encoding: str | None, notes: list[str]) -> Iterator[str]:
    return (line for _, line in read_numbered_lines(file, encoding, notes) if line)


def read_numbered_lines(file: Any, encoding: str | None, notes: list[str]) -> Iterator[tuple[int, str]]:
    """Yield lines, including empty ones, with their numbers; long lines are split, undecodable ones are skipped."""
    blob = open_handle(file) if callable(getattr(file, "read", None)) else open_path(Path(file))
    if not blob.head:
        raise InputError(f"{blob.name} is empty.")
    resolved_encoding, encoding_title = detect_encoding(blob, encoding)
    if b"\0" in blob.head and not resolved_encoding.replace("_", "-").lower().startswith(("utf-16", "utf-32")):
        raise InputError(f"{blob.name} contains NUL bytes, so it is probably binary; expected a text file.")
    if encoding is None and encoding_title != "UTF-8":
        notes.append(f"{blob.name} was read as {encoding_title}.")
    line_count, bad_count, first_bad_line = 0, 0, 0
    for number, line in _read_chunks(blob, resolved_encoding):
        line_count += 1
        if line is None:
            bad_count, first_bad_line = bad_count + 1, first_bad_line or number
        else:
            yield number, line
    problem = f"{pluralize(bad_count, 'line')} of invalid {encoding_title} (first: line {first_bad_line:,})"
    if bad_count > MAX_BAD_SHARE * line_count:
        raise InputError(f"{blob.name} has {problem}; set {setting('encoding', 'NAME')}, or convert the file to UTF-8.")
    if bad_count:
        notes.append(f"{blob.name}: skipped {problem}.")


def _read_chunks(blob: Blob, encoding: str) -> Iterator[tuple[int, str | None]]:
    """Yield lines, or chunks of long lines, with the line number; None instead of undecodable text."""
    number, is_line_start, remainder = 0, True, ""
    try:
        with io.TextIOWrapper(blob.open(), encoding=encoding, errors="surrogateescape", newline=None) as file:
            while chunk := file.readline(CHUNK_CHARS):
                number += is_line_start
                chunk, remainder, is_line_start = *_split_at_space(remainder + chunk), chunk.endswith("\n")
                yield number, _clean_line(chunk)
            if remainder:
                yield number, _clean_line(remainder)
    except UnicodeDecodeError:
        raise InputError(f"{blob.name} is not valid {encoding} near line {number + 1:,}.") from None
    except STREAM_ERRORS as error:
        raise InputError(f"{blob.name} cannot be read beyond line {number:,}: {error}.") from None


def _split_at_space(text: str) -> tuple[str, str]:
    """Split a chunk of a long line at its last space; the remainder belongs to the next chunk."""
    end = text.rfind(" ", CHUNK_CHARS // 2) + 1 if len(text) >= CHUNK_CHARS and not text.endswith("\n") else 0
    return (text[:end], text[end:]) if end else (text, "")


def _clean_line(line: str) -> str | None:
    is_invalid = "\0" in line or (not line.isascii() and SURROGATE.search(line) is not None)
    return None if is_invalid else line.rstrip("\n")


def read_cells(file: Any, columns: str | Sequence[str] | None, encoding: str | None, notes: list[str]) -> Iterator[str]:
    """Yield the texts of columns of a table, row by row; long texts are split."""
    return (text for _, text in read_numbered_cells(file, columns, encoding, notes))


def read_numbered_cells(
    file: Any, columns: str | Sequence[str] | None, encoding: str | None, notes: list[str]
) -> Iterator[tuple[int, str]]:
    """Yield the same texts with their row numbers."""

    source = open_source(file, encoding=encoding)
    column_names = _resolve_text_columns(source, columns)
    row_count = bad_count = 0
    reason = ""
    for row in source.rows():
        row_count += 1
        values = [] if isinstance(row, BadRow) else [row.values.get(name) for name in column_names]
        if isinstance(row, BadRow) or any(value is not None and not _is_valid_text(value) for value in values):
            bad_count += 1
            reason = reason or (str(row) if isinstance(row, BadRow) else f"row {row.number:,}: not a text")
            continue
        for value in values:
            yield from ((row_count, chunk) for chunk in _split_cell(value or ""))
    if bad_count > MAX_BAD_SHARE * row_count:
        raise InputError(f"{source.name}: {bad_count:,} of {row_count:,} rows cannot be read; {reason}.")
    if bad_count:
        notes.append(f"{source.name}: {pluralize(bad_count, 'row', ('was', 'were'))} skipped; {reason}.")


def _split_cell(text: str) -> Iterator[str]:
    """Split a long text into chunks, at spaces if possible."""
    start = 0
    while start < len(text):
        end = start + CHUNK_CHARS
        if end < len(text):
            end = text.rfind(" ", start + CHUNK_CHARS // 2, end) + 1 or end
        yield text[start:end]
        start = end


def _is_valid_text(value: object) -> bool:
    return isinstance(value, str) and (value.isascii() or SURROGATE.search(value) is None)


def _resolve_text_columns(source: Source, columns: str | Sequence[str] | None) -> list[str]:
    if columns is None:
        return [resolve_columns(source, TEXT_COLUMNS).text]
    if isinstance(columns, str):
        columns = [columns] if columns in source.columns else [name.strip() for name in columns.split(",")]
    missing = [name for name in columns if name not in source.columns]
    if missing or not columns:
        missing_name = to_printable(missing[0]) if missing else ""
        raise InputError(f"{source.name} has no column {missing_name!r}; it has {format_columns(source.columns)}.")
    return list(dict.fromkeys(columns))
