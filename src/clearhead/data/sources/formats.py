"""A `Source` for each file format: its columns, its rows, and a description of what was detected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

from clearhead.data.sources.conll import TAGS, ConllLayout, read_sentence_rows
from clearhead.data.sources.delimited import (
    REASONS,
    Dialect,
    detect_dialect,
    read_delimited_rows,
    read_records,
    split_head,
)
from clearhead.data.sources.files import Blob, Line, detect_newline, read_lines
from clearhead.data.sources.header import default_column_names, has_header, header_to_column_names
from clearhead.data.sources.objects import read_json_lines, read_json_list
from clearhead.data.sources.source import (
    NUL_BYTE,
    BadRow,
    OneTimeRows,
    Row,
    Rows,
    Source,
    excerpt,
    format_names,
)
from clearhead.data.sources.squad import COLUMNS, read_question_rows
from clearhead.data.sources.values import MAX_SAMPLE_ROWS, collect_columns
from clearhead.errors import InputError

DELIMITER_TITLES = {",": "comma-separated", "\t": "tab-separated", ";": "semicolon-separated", "|": "pipe-separated"}
MAX_COLUMNS = 10_000


def check_document(blob: Blob, head: str, kind: str) -> None:
    """Refuse a single JSON object that holds the rows somewhere inside."""
    if kind == "json":
        return
    rows = list(islice(read_json_lines((n, line, None) for n, line in enumerate(head.split("\n"), start=1)), 2))
    inner = [row for row in rows if isinstance(row, Row) and any(_holds_rows(value) for value in row.values.values())]
    if not any(isinstance(row, Row) for row in rows) or (len(rows) == 1 and inner):
        keys = f" with the keys {format_names(list(inner[0].values))}" if inner else ""
        raise InputError(f"{blob.name} holds one JSON object{keys}, expected a list of objects or one object a line.")


def _holds_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def open_json(blob: Blob, kind: str, encoding: str, spoken: str, newline: str) -> Source:
    def rows(blob: Blob) -> Rows:
        return (
            read_json_list(blob, encoding) if kind == "json" else read_json_lines(read_lines(blob, encoding, newline))
        )

    source = Source(name=blob.name, kind=kind, columns=(), encoding=encoding, open=lambda: rows(blob))
    source = add_file_facts(blob, source, "")
    seen = replace(source, open=lambda: rows(blob.in_memory)) if source.is_rereadable else source
    columns = collect_columns(seen.sample(MAX_SAMPLE_ROWS))
    if not columns:
        bad = next(iter(seen.sample(1)), None)
        raise InputError(f"{blob.name} holds no JSON objects" + (f"; {bad}." if bad else "."))
    check_columns(blob, columns)
    form = "a JSON list" if kind == "json" else "a JSON object a line"
    return replace(
        source, columns=columns, messages=(f"{form}, {spoken}; columns: {format_names(columns)}", *source.messages)
    )


def open_squad(blob: Blob, encoding: str, spoken: str) -> Source:
    said = (f"questions on passages as in SQuAD, {spoken}",)
    return add_file_facts(
        blob,
        Source(
            name=blob.name,
            kind="squad",
            columns=COLUMNS,
            encoding=encoding,
            messages=said,
            open=lambda: read_question_rows(blob, encoding),
        ),
        "",
    )


def open_sentences(blob: Blob, grid: ConllLayout, encoding: str, spoken: str, newline: str) -> Source:
    said: tuple[str, ...] = (f"a token a line, {'tabs' if grid.tabs else 'spaces'} between its columns, {spoken}",)
    if grid.columns[-1] == TAGS and len(grid.columns) > 2:
        said = (*said, "tags: the last column")
    return add_file_facts(
        blob,
        Source(
            name=blob.name,
            kind="conll",
            columns=grid.columns,
            encoding=encoding,
            messages=said,
            delimiter="\t" if grid.tabs else " ",
            has_header=grid.header,
            open=lambda: read_sentence_rows(read_lines(blob, encoding, newline), grid),
        ),
        "",
    )


def add_file_facts(blob: Blob, source: Source, form: str) -> Source:
    """The same source with what its file adds to it."""
    said = (f"{form}; columns: {format_names(source.columns)}",) if form else ()
    opened = source.open if blob.is_reopenable else OneTimeRows(source.open(), blob.name)
    return replace(
        source,
        path=blob.path,
        compression="gzip" if blob.is_compressed else None,
        messages=(*said, *source.messages, *(("compressed with gzip",) if blob.is_compressed else ())),
        open=opened,
    )


def check_columns(blob: Blob, columns: Sequence[str]) -> None:
    if not columns:
        raise InputError(f"{blob.name} has no columns.")
    if len(columns) > MAX_COLUMNS:
        raise InputError(f"{blob.name} has {len(columns):,} columns, more than the {MAX_COLUMNS:,} that are read.")


def open_table(
    blob: Blob,
    head: str,
    encoding: str,
    spoken: str,
    delimiter: str | None,
    header: bool | Sequence[str] | None,
    quotes: bool | None,
) -> Source:
    newline = detect_newline(head)
    dialect = detect_dialect(head, suffix=blob.suffix, whole=blob.is_complete, delimiter=delimiter, quotes=quotes)
    if blob.suffix == ".txt" and delimiter is None and dialect is not None and not _has_uniform_width(head, dialect):
        dialect = None
    if dialect is None:
        return open_lines(blob, encoding, spoken, newline)
    found = list(islice(read_records(split_head(head), dialect), 1000))
    first = found[0] if found else None
    if first is None or first.problem is not None:
        trouble = f"line {first.line}: {first.reason}" if first else "it holds no rows"
        raise InputError(f"{blob.name} cannot be read as a table; {trouble}.")
    named = not isinstance(header, bool) and header is not None
    check_columns(blob, first.cells if not named else list(header))  # type: ignore[arg-type]
    others = [record.cells for record in found[1:] if len(record.cells) == len(first.cells)]
    with_header = header if isinstance(header, bool) else False if named else has_header(first.cells, others)
    columns = header_to_column_names(first.cells) if with_header else default_column_names(len(first.cells))
    if named:
        columns = header_to_column_names(list(header))  # type: ignore[arg-type]
    said = f"{DELIMITER_TITLES.get(dialect.delimiter, f'separated by {dialect.delimiter!r}')}, {spoken}, " + (
        f"header: {format_names(columns)}" if with_header else f"no header; columns: {format_names(columns)}"
    )
    notes = [f"{dialect.comments} lines of comment at the top are passed over"] if dialect.comments else []
    if not dialect.quotes and any('"' in record.text for record in found):
        notes.append("quote characters are letters here, they do not wrap cells")

    def rows() -> Rows:
        return read_delimited_rows(read_lines(blob, encoding, newline), dialect, columns, header=bool(with_header))

    source = Source(
        name=blob.name,
        kind="tsv" if dialect.delimiter == "\t" else "csv",
        columns=columns,
        delimiter=dialect.delimiter,
        encoding=encoding,
        has_header=bool(with_header),
        quotes=dialect.quotes,
        messages=(said, *notes),
        open=rows,
    )
    return add_file_facts(blob, source, "")


def open_lines(blob: Blob, encoding: str, spoken: str, newline: str, warnings: tuple[str, ...] = ()) -> Source:
    blank = [0]  # lines that the last reading passed over: a count alone, for a file may hold nothing else
    source = Source(
        name=blob.name,
        kind="lines",
        columns=("text",),
        encoding=encoding,
        has_header=False,
        warnings=warnings,
        messages=(f"a text a line, {spoken}; column: text",),
        open=lambda: _read_line_rows(read_lines(blob, encoding, newline), blank),
        count_blank_lines=lambda: blank[0],
    )
    return add_file_facts(blob, source, "")


def _has_uniform_width(head: str, dialect: Dialect) -> bool:
    """Whether every row of a text file has the same cells: prose only looks like a table in places."""
    counts = {len(record.cells) for record in read_records(split_head(head), dialect)}
    return len(counts) == 1 and dialect.delimiter == "\t"


def _read_line_rows(lines: Iterable[Line], blank: list[int]) -> Rows:
    number = 0
    blank[0] = 0
    for place, line, problem in lines:
        if problem is None and not line.strip():
            blank[0] += 1
            continue
        number += 1
        kind = problem or (NUL_BYTE if "\0" in line else None)
        if kind is not None:
            yield BadRow(number, REASONS[kind], excerpt(line), place, kind)
        else:
            yield Row(number, {"text": line.rstrip("\r\n")}, place)
