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
    """Reject a single JSON object with nested rows."""
    if kind == "json":
        return
    rows = list(islice(read_json_lines((n, line, None) for n, line in enumerate(head.split("\n"), start=1)), 2))
    nested_rows = [
        row for row in rows if isinstance(row, Row) and any(_holds_rows(value) for value in row.values.values())
    ]
    if not any(isinstance(row, Row) for row in rows) or (len(rows) == 1 and nested_rows):
        keys = f" with the keys {format_names(list(nested_rows[0].values))}" if nested_rows else ""
        raise InputError(
            f"{blob.name} contains one JSON object{keys}, expected a list of objects or one object per line."
        )


def _holds_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def open_json(blob: Blob, kind: str, encoding: str, encoding_title: str, newline: str) -> Source:
    def rows(blob: Blob) -> Rows:
        return (
            read_json_list(blob, encoding) if kind == "json" else read_json_lines(read_lines(blob, encoding, newline))
        )

    source = Source(name=blob.name, kind=kind, columns=(), encoding=encoding, open=lambda: rows(blob))
    source = add_file_facts(blob, source, "")
    sampled = replace(source, open=lambda: rows(blob.in_memory)) if source.is_rereadable else source
    columns = collect_columns(sampled.sample(MAX_SAMPLE_ROWS))
    if not columns:
        bad_row = next(iter(sampled.sample(1)), None)
        raise InputError(f"{blob.name} contains no JSON objects" + (f"; {bad_row}." if bad_row else "."))
    check_columns(blob, columns)
    description = "a JSON list" if kind == "json" else "one JSON object per line"
    return replace(
        source,
        columns=columns,
        messages=(f"{description}, {encoding_title}; columns: {format_names(columns)}", *source.messages),
    )


def open_squad(blob: Blob, encoding: str, encoding_title: str) -> Source:
    messages = (f"SQuAD format, {encoding_title}",)
    return add_file_facts(
        blob,
        Source(
            name=blob.name,
            kind="squad",
            columns=COLUMNS,
            encoding=encoding,
            messages=messages,
            open=lambda: read_question_rows(blob, encoding),
        ),
        "",
    )


def open_sentences(blob: Blob, layout: ConllLayout, encoding: str, encoding_title: str, newline: str) -> Source:
    messages: tuple[str, ...] = (
        f"one token per line, {'tabs' if layout.tabs else 'spaces'} between columns, {encoding_title}",
    )
    if layout.columns[-1] == TAGS and len(layout.columns) > 2:
        messages = (*messages, "tags in the last column")
    return add_file_facts(
        blob,
        Source(
            name=blob.name,
            kind="conll",
            columns=layout.columns,
            encoding=encoding,
            messages=messages,
            delimiter="\t" if layout.tabs else " ",
            has_header=layout.header,
            open=lambda: read_sentence_rows(read_lines(blob, encoding, newline), layout),
        ),
        "",
    )


def add_file_facts(blob: Blob, source: Source, description: str) -> Source:
    """Add the path, the compression and messages of the file to a source."""
    messages = (f"{description}; columns: {format_names(source.columns)}",) if description else ()
    open_rows = source.open if blob.is_reopenable else OneTimeRows(source.open(), blob.name)
    return replace(
        source,
        path=blob.path,
        compression="gzip" if blob.is_compressed else None,
        messages=(*messages, *source.messages, *(("compressed with gzip",) if blob.is_compressed else ())),
        open=open_rows,
    )


def check_columns(blob: Blob, columns: Sequence[str]) -> None:
    if not columns:
        raise InputError(f"{blob.name} has no columns.")
    if len(columns) > MAX_COLUMNS:
        raise InputError(f"{blob.name} has {len(columns):,} columns, more than the maximum of {MAX_COLUMNS:,}.")


def open_table(
    blob: Blob,
    head: str,
    encoding: str,
    encoding_title: str,
    delimiter: str | None,
    header: bool | Sequence[str] | None,
    quotes: bool | None,
) -> Source:
    newline = detect_newline(head)
    dialect = detect_dialect(head, suffix=blob.suffix, is_complete=blob.is_complete, delimiter=delimiter, quotes=quotes)
    if blob.suffix == ".txt" and delimiter is None and dialect is not None and not _has_uniform_width(head, dialect):
        dialect = None
    if dialect is None:
        return open_lines(blob, encoding, encoding_title, newline)
    sample = list(islice(read_records(split_head(head), dialect), 1000))
    first_record = sample[0] if sample else None
    if first_record is None or first_record.problem is not None:
        problem = f"line {first_record.line}: {first_record.reason}" if first_record else "it has no rows"
        raise InputError(f"{blob.name} cannot be read as a table; {problem}.")
    has_given_names = not isinstance(header, bool) and header is not None
    check_columns(blob, first_record.cells if not has_given_names else list(header))  # type: ignore[arg-type]
    other_rows = [record.cells for record in sample[1:] if len(record.cells) == len(first_record.cells)]
    is_header = (
        header if isinstance(header, bool) else False if has_given_names else has_header(first_record.cells, other_rows)
    )
    columns = header_to_column_names(first_record.cells) if is_header else default_column_names(len(first_record.cells))
    if has_given_names:
        columns = header_to_column_names(list(header))  # type: ignore[arg-type]
    description = (
        f"{DELIMITER_TITLES.get(dialect.delimiter, f'separated by {dialect.delimiter!r}')}, {encoding_title}, "
        + (f"header: {format_names(columns)}" if is_header else f"no header; columns: {format_names(columns)}")
    )
    notes = [f"{dialect.comments} comment lines at the top are skipped"] if dialect.comments else []
    if not dialect.quotes and any('"' in record.text for record in sample):
        notes.append("quote characters are ordinary characters in this file")

    def rows() -> Rows:
        return read_delimited_rows(read_lines(blob, encoding, newline), dialect, columns, header=bool(is_header))

    source = Source(
        name=blob.name,
        kind="tsv" if dialect.delimiter == "\t" else "csv",
        columns=columns,
        delimiter=dialect.delimiter,
        encoding=encoding,
        has_header=bool(is_header),
        quotes=dialect.quotes,
        messages=(description, *notes),
        open=rows,
    )
    return add_file_facts(blob, source, "")


def open_lines(blob: Blob, encoding: str, encoding_title: str, newline: str, warnings: tuple[str, ...] = ()) -> Source:
    blank_lines = [0]  # number of lines that the last pass skipped
    source = Source(
        name=blob.name,
        kind="lines",
        columns=("text",),
        encoding=encoding,
        has_header=False,
        warnings=warnings,
        messages=(f"one text per line, {encoding_title}; column: text",),
        open=lambda: _read_line_rows(read_lines(blob, encoding, newline), blank_lines),
        count_blank_lines=lambda: blank_lines[0],
    )
    return add_file_facts(blob, source, "")


def _has_uniform_width(head: str, dialect: Dialect) -> bool:
    """Whether every line of a text file has the same number of tab-separated cells, unlike prose."""
    counts = {len(record.cells) for record in read_records(split_head(head), dialect)}
    return len(counts) == 1 and dialect.delimiter == "\t"


def _read_line_rows(lines: Iterable[Line], blank_lines: list[int]) -> Rows:
    number = 0
    blank_lines[0] = 0
    for line_number, line, problem in lines:
        if problem is None and not line.strip():
            blank_lines[0] += 1
            continue
        number += 1
        row_problem = problem or (NUL_BYTE if "\0" in line else None)
        if row_problem is not None:
            yield BadRow(number, REASONS[row_problem], excerpt(line), line_number, row_problem)
        else:
            yield Row(number, {"text": line.rstrip("\r\n")}, line_number)
