"""`open_source`: whatever holds rows becomes a `Source`, and what was detected is said."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from clearhead.caller import setting
from clearhead.data.sources.arrow import parquet
from clearhead.data.sources.conll import SUFFIXES, TAGS, Grid, find_grid, sentence_rows
from clearhead.data.sources.delimited import (
    DELIMITERS,
    REASONS,
    Dialect,
    delimited_rows,
    find_dialect,
    head_lines,
    records,
)
from clearhead.data.sources.files import (
    Blob,
    Line,
    decoded_head,
    find_encoding,
    lines_of,
    newline_of,
    open_handle,
    open_path,
)
from clearhead.data.sources.folders import open_folder
from clearhead.data.sources.header import column_names, has_header, numbered_names
from clearhead.data.sources.objects import list_rows, object_rows
from clearhead.data.sources.piped import FORMATS, SIGNS, header_sign, is_json, looks_like_table
from clearhead.data.sources.source import NUL, BadRow, Once, Row, Rows, Source, excerpt
from clearhead.data.sources.squad import COLUMNS, is_squad, question_rows
from clearhead.data.sources.values import LOOKED_AT, columns_of, named_columns, open_values
from clearhead.errors import InputError

SPOKEN = {",": "comma-separated", "\t": "tab-separated", ";": "semicolon-separated", "|": "pipe-separated"}
DELIMITER_NAMES = {name: sign for sign, name in DELIMITERS.items()} | {"\\t": "\t"}
KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".parquet": "parquet", ".pq": "parquet"}
TABLES = (".csv", ".tsv", ".tab", ".txt")  # never taken for JSON, whatever they begin with
MOST_COLUMNS = 10_000
FIRST_LINES = 20  # of a pipe, that tell a table


def open_source(
    source: Any,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool | Sequence[str] | None = None,
    quotes: bool | None = None,
    format: str | None = None,  # noqa: A002
    expected: Collection[str] = (),
) -> Source:
    """Rows from a file, a folder, a handle or a Python value; what is not said is detected.

    `format` is csv, tsv, jsonl or text. A pipe and a .txt file hold a text a line, unless their first line names
    columns: those that are `expected`, or that are known to hold texts.
    """
    if format is not None and format not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}, and it is {excerpt(format)!r}.")
    if isinstance(source, Source):
        return source
    if isinstance(source, str | os.PathLike):
        if source == "":
            raise InputError("The name of the file is empty; give a file, rows or a table.")
        if source == "-":
            raise InputError("'-' stands for the standard input: hand over its handle, sys.stdin.buffer.")
        path = Path(source)
        try:
            folder = path.is_dir()
        except OSError as error:  # a name that is too long, say
            raise InputError(f"{excerpt(source)} cannot be read: {error.strerror or error}.") from None
        if folder:
            return open_folder(path, encoding)
        blob = open_path(path)
    elif callable(getattr(source, "read", None)):
        blob = open_handle(source)
    else:
        return open_values(source)
    if not blob.head:
        raise InputError(f"{blob.name} is empty.")
    return _open_blob(blob, _sign(delimiter) or SIGNS.get(format or ""), encoding, header, quotes, format, expected)


def _sign(delimiter: str | None) -> str | None:
    sign = DELIMITER_NAMES.get(delimiter, delimiter) if delimiter is not None else None
    if sign is not None and (len(sign) != 1 or sign in '"\\\r\n\0'):
        raise InputError(f"delimiter {delimiter!r} is not one character; try ',' or ';' or 'tab'.")
    return sign


def _open_blob(
    blob: Blob,
    delimiter: str | None,
    encoding: str | None,
    header: bool | Sequence[str] | None,
    quotes: bool | None,
    format: str | None,  # noqa: A002
    expected: Collection[str],
) -> Source:
    kind = KINDS.get(blob.suffix) if format is None else "jsonl" if format == "jsonl" else None
    if blob.head.startswith(b"PAR1") or kind == "parquet":
        columns, rows, names = parquet(blob)
        _check_columns(blob, columns)
        said = tuple(named_columns(names))
        source = Source(name=blob.name, kind="parquet", columns=columns, said=said, label_names=names, open=rows)
        return _made(blob, source, "Parquet")
    name, spoken = find_encoding(blob, encoding)
    head = decoded_head(blob, name)
    first = head.lstrip("\ufeff \t\r\n")[:1]
    unnamed = format is None and kind is None and delimiter is None and blob.suffix not in TABLES
    unnamed = unnamed and (not blob.is_piped or is_json(head))
    if format == "text":
        return _open_lines(blob, name, spoken, newline_of(head))
    if first == "{" and (kind in ("json", "jsonl") or unnamed) and is_squad(head):
        return _open_squad(blob, name, spoken)
    if format is None and kind is None and delimiter is None and header is None:
        grid = find_grid(head, named=blob.suffix in SUFFIXES)
        if grid is not None:
            return _open_sentences(blob, grid, name, spoken, newline_of(head))
        if blob.suffix in SUFFIXES:
            raise InputError(f"{blob.name} has no tokens, expected one a line and a blank line after each sentence.")
    if kind == "json" or (unnamed and first in ("{", "[")):
        kind = "json" if first == "[" else "jsonl"
        _check_document(blob, head, kind)
    if kind is not None:
        return _open_json(blob, kind, name, spoken, newline_of(head))
    if delimiter is None and header is None and (blob.is_piped or blob.suffix == ".txt"):
        delimiter = header_sign(*_first_lines(head), expected)
        header = None if delimiter is None else True
        if blob.is_piped and delimiter is None:
            return _open_lines(blob, name, spoken, newline_of(head), _table_warnings(blob, head))
    return _open_table(blob, head, name, spoken, delimiter, header, quotes)


def _first_lines(head: str) -> tuple[str, str | None]:
    lines = [line for line in head.split(newline_of(head), FIRST_LINES) if line.strip()]
    return (lines[0] if lines else "", lines[1] if len(lines) > 1 else None)


def _table_warnings(blob: Blob, head: str) -> tuple[str, ...]:
    """A table whose columns are not known is read as texts, too: say so, for nobody else would notice."""
    lines = head.split(newline_of(head))
    sign = looks_like_table(lines[: FIRST_LINES if blob.whole else min(len(lines) - 1, FIRST_LINES)])
    if sign is None:
        return ()
    name = "tsv" if sign == "\t" else "csv"
    return (f"{blob.name} is read as a text a line; if it is a table, say so with {setting('input_format', name)}.",)


def _check_document(blob: Blob, head: str, kind: str) -> None:
    """Refuse a single JSON object that holds the rows somewhere inside."""
    if kind == "json":
        return
    rows = list(islice(object_rows((n, line, None) for n, line in enumerate(head.split("\n"), start=1)), 2))
    inner = [row for row in rows if isinstance(row, Row) and any(_holds_rows(value) for value in row.values.values())]
    if not any(isinstance(row, Row) for row in rows) or (len(rows) == 1 and inner):
        keys = f" with the keys {_listed(list(inner[0].values))}" if inner else ""
        raise InputError(f"{blob.name} holds one JSON object{keys}, expected a list of objects or one object a line.")


def _holds_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _open_json(blob: Blob, kind: str, encoding: str, spoken: str, newline: str) -> Source:
    def rows(blob: Blob) -> Rows:
        return list_rows(blob, encoding) if kind == "json" else object_rows(lines_of(blob, encoding, newline))

    source = Source(name=blob.name, kind=kind, columns=(), encoding=encoding, open=lambda: rows(blob))
    source = _made(blob, source, "")
    seen = replace(source, open=lambda: rows(blob.in_memory)) if source.again else source
    columns = columns_of(seen.sample(LOOKED_AT))
    if not columns:
        bad = next(iter(seen.sample(1)), None)
        raise InputError(f"{blob.name} holds no JSON objects" + (f"; {bad}." if bad else "."))
    _check_columns(blob, columns)
    form = "a JSON list" if kind == "json" else "a JSON object a line"
    return replace(source, columns=columns, said=(f"{form}, {spoken}; columns: {_listed(columns)}", *source.said))


def _open_squad(blob: Blob, encoding: str, spoken: str) -> Source:
    said = (f"questions on passages as in SQuAD, {spoken}",)
    return _made(
        blob,
        Source(
            name=blob.name,
            kind="squad",
            columns=COLUMNS,
            encoding=encoding,
            said=said,
            open=lambda: question_rows(blob, encoding),
        ),
        "",
    )


def _open_sentences(blob: Blob, grid: Grid, encoding: str, spoken: str, newline: str) -> Source:
    said: tuple[str, ...] = (f"a token a line, {'tabs' if grid.tabs else 'spaces'} between its columns, {spoken}",)
    if grid.columns[-1] == TAGS and len(grid.columns) > 2:
        said = (*said, "tags: the last column")
    return _made(
        blob,
        Source(
            name=blob.name,
            kind="conll",
            columns=grid.columns,
            encoding=encoding,
            said=said,
            delimiter="\t" if grid.tabs else " ",
            has_header=grid.header,
            open=lambda: sentence_rows(lines_of(blob, encoding, newline), grid),
        ),
        "",
    )


def _made(blob: Blob, source: Source, form: str) -> Source:
    """The same source with what its file adds to it."""
    said = (f"{form}; columns: {_listed(source.columns)}",) if form else ()
    opened = source.open if blob.again else Once(source.open(), blob.name)
    return replace(
        source,
        path=blob.path,
        compression="gzip" if blob.compressed else None,
        said=(*said, *source.said, *(("compressed with gzip",) if blob.compressed else ())),
        open=opened,
    )


def _check_columns(blob: Blob, columns: Sequence[str]) -> None:
    if not columns:
        raise InputError(f"{blob.name} has no columns.")
    if len(columns) > MOST_COLUMNS:
        raise InputError(f"{blob.name} has {len(columns):,} columns, more than the {MOST_COLUMNS:,} that are read.")


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(excerpt(name) for name in columns[:20]) + (", ..." if len(columns) > 20 else "")


def _open_table(
    blob: Blob,
    head: str,
    encoding: str,
    spoken: str,
    delimiter: str | None,
    header: bool | Sequence[str] | None,
    quotes: bool | None,
) -> Source:
    newline = newline_of(head)
    dialect = find_dialect(head, suffix=blob.suffix, whole=blob.whole, delimiter=delimiter, quotes=quotes)
    if blob.suffix == ".txt" and delimiter is None and dialect is not None and not _all_fit(head, dialect):
        dialect = None
    if dialect is None:
        return _open_lines(blob, encoding, spoken, newline)
    found = list(islice(records(head_lines(head), dialect), 1000))
    first = found[0] if found else None
    if first is None or first.problem is not None:
        trouble = f"line {first.line}: {first.reason}" if first else "it holds no rows"
        raise InputError(f"{blob.name} cannot be read as a table; {trouble}.")
    named = not isinstance(header, bool) and header is not None
    _check_columns(blob, first.cells if not named else list(header))  # type: ignore[arg-type]
    others = [record.cells for record in found[1:] if len(record.cells) == len(first.cells)]
    with_header = header if isinstance(header, bool) else False if named else has_header(first.cells, others)
    columns = column_names(first.cells) if with_header else numbered_names(len(first.cells))
    if named:
        columns = column_names(list(header))  # type: ignore[arg-type]
    said = f"{SPOKEN.get(dialect.delimiter, f'separated by {dialect.delimiter!r}')}, {spoken}, " + (
        f"header: {_listed(columns)}" if with_header else f"no header; columns: {_listed(columns)}"
    )
    notes = [f"{dialect.comments} lines of comment at the top are passed over"] if dialect.comments else []
    if not dialect.quotes and any('"' in record.text for record in found):
        notes.append("quote characters are letters here, they do not wrap cells")

    def rows() -> Rows:
        return delimited_rows(lines_of(blob, encoding, newline), dialect, columns, header=bool(with_header))

    source = Source(
        name=blob.name,
        kind="tsv" if dialect.delimiter == "\t" else "csv",
        columns=columns,
        delimiter=dialect.delimiter,
        encoding=encoding,
        has_header=bool(with_header),
        quotes=dialect.quotes,
        said=(said, *notes),
        open=rows,
    )
    return _made(blob, source, "")


def _open_lines(blob: Blob, encoding: str, spoken: str, newline: str, warnings: tuple[str, ...] = ()) -> Source:
    blank = [0]  # lines that the last reading passed over: a count alone, for a file may hold nothing else
    source = Source(
        name=blob.name,
        kind="lines",
        columns=("text",),
        encoding=encoding,
        has_header=False,
        warnings=warnings,
        said=(f"a text a line, {spoken}; column: text",),
        open=lambda: _line_rows(lines_of(blob, encoding, newline), blank),
        blank_lines=lambda: blank[0],
    )
    return _made(blob, source, "")


def _all_fit(head: str, dialect: Dialect) -> bool:
    """Whether every row of a text file has the same cells: prose only looks like a table in places."""
    counts = {len(record.cells) for record in records(head_lines(head), dialect)}
    return len(counts) == 1 and dialect.delimiter == "\t"


def _line_rows(lines: Iterable[Line], blank: list[int]) -> Rows:
    number = 0
    blank[0] = 0
    for place, line, problem in lines:
        if problem is None and not line.strip():
            blank[0] += 1
            continue
        number += 1
        kind = problem or (NUL if "\0" in line else None)
        if kind is not None:
            yield BadRow(number, REASONS[kind], excerpt(line), place, kind)
        else:
            yield Row(number, {"text": line.rstrip("\r\n")}, place)
