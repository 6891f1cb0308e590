"""`open_source` opens files, folders, pipes and Python values as a `Source` and detects their format."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from clearhead.caller import setting
from clearhead.data.sources.arrow import open_parquet
from clearhead.data.sources.conll import SUFFIXES, detect_conll
from clearhead.data.sources.delimited import (
    DELIMITERS,
)
from clearhead.data.sources.files import (
    Blob,
    decode_head,
    detect_encoding,
    detect_newline,
    open_handle,
    open_path,
)
from clearhead.data.sources.folders import open_folder
from clearhead.data.sources.formats import (
    add_file_facts,
    check_columns,
    check_document,
    open_json,
    open_lines,
    open_sentences,
    open_squad,
    open_table,
)
from clearhead.data.sources.piped import (
    FORMAT_DELIMITERS,
    FORMATS,
    detect_header_delimiter,
    guess_table_delimiter,
    is_json,
)
from clearhead.data.sources.source import Source, excerpt
from clearhead.data.sources.squad import is_squad
from clearhead.data.sources.values import describe_label_names, open_values
from clearhead.errors import InputError

DELIMITER_NAMES = {name: sign for sign, name in DELIMITERS.items()} | {"\\t": "\t"}
SUFFIX_KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".parquet": "parquet", ".pq": "parquet"}
TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".txt")  # never JSON, whatever they start with
HEADER_SAMPLE_LINES = 20  # of a pipe, used to detect tables


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
    """Open a file, folder, handle or Python value with rows; formats that are not set are detected.

    `format` is csv, tsv, jsonl or text. Pipes and .txt files contain one text per line, unless their first line is
    a header with a column that is `expected` or a usual name of texts.
    """
    if format is not None and format not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}, got {excerpt(format)!r}.")
    if isinstance(source, Source):
        return source
    if isinstance(source, str | os.PathLike):
        if source == "":
            raise InputError("The file name is empty; expected a file, rows or a table.")
        if source == "-":
            raise InputError("'-' means standard input: pass its handle, sys.stdin.buffer.")
        path = Path(source)
        try:
            is_folder = path.is_dir()
        except OSError as error:  # such as a name that is too long
            raise InputError(f"{excerpt(source)} cannot be read: {error.strerror or error}.") from None
        if is_folder:
            return open_folder(path, encoding)
        blob = open_path(path)
    elif callable(getattr(source, "read", None)):
        blob = open_handle(source)
    else:
        return open_values(source)
    if not blob.head:
        raise InputError(f"{blob.name} is empty.")
    return _open_blob(
        blob,
        _resolve_delimiter(delimiter) or FORMAT_DELIMITERS.get(format or ""),
        encoding,
        header,
        quotes,
        format,
        expected,
    )


def _resolve_delimiter(delimiter: str | None) -> str | None:
    character = DELIMITER_NAMES.get(delimiter, delimiter) if delimiter is not None else None
    if character is not None and (len(character) != 1 or character in '"\\\r\n\0'):
        raise InputError(f"delimiter {delimiter!r} must be a single character; try ',' or ';' or 'tab'.")
    return character


def _open_blob(
    blob: Blob,
    delimiter: str | None,
    encoding: str | None,
    header: bool | Sequence[str] | None,
    quotes: bool | None,
    format: str | None,  # noqa: A002
    expected: Collection[str],
) -> Source:
    kind = SUFFIX_KINDS.get(blob.suffix) if format is None else "jsonl" if format == "jsonl" else None
    if blob.head.startswith(b"PAR1") or kind == "parquet":
        columns, rows, names = open_parquet(blob)
        check_columns(blob, columns)
        messages = tuple(describe_label_names(names))
        source = Source(
            name=blob.name, kind="parquet", columns=columns, messages=messages, label_names=names, open=rows
        )
        return add_file_facts(blob, source, "Parquet")
    encoding_name, encoding_title = detect_encoding(blob, encoding)
    head = decode_head(blob, encoding_name)
    first_character = head.lstrip("\ufeff \t\r\n")[:1]
    may_be_json = format is None and kind is None and delimiter is None and blob.suffix not in TABLE_SUFFIXES
    may_be_json = may_be_json and (not blob.is_piped or is_json(head))
    if format == "text":
        return open_lines(blob, encoding_name, encoding_title, detect_newline(head))
    if first_character == "{" and (kind in ("json", "jsonl") or may_be_json) and is_squad(head):
        return open_squad(blob, encoding_name, encoding_title)
    if format is None and kind is None and delimiter is None and header is None:
        layout = detect_conll(head, has_conll_suffix=blob.suffix in SUFFIXES)
        if layout is not None:
            return open_sentences(blob, layout, encoding_name, encoding_title, detect_newline(head))
        if blob.suffix in SUFFIXES:
            raise InputError(
                f"{blob.name} has no tokens; expected one token per line and a blank line after each sentence."
            )
    if kind == "json" or (may_be_json and first_character in ("{", "[")):
        kind = "json" if first_character == "[" else "jsonl"
        check_document(blob, head, kind)
    if kind is not None:
        return open_json(blob, kind, encoding_name, encoding_title, detect_newline(head))
    if delimiter is None and header is None and (blob.is_piped or blob.suffix == ".txt"):
        delimiter = detect_header_delimiter(*_first_two_lines(head), expected)
        header = None if delimiter is None else True
        if blob.is_piped and delimiter is None:
            return open_lines(blob, encoding_name, encoding_title, detect_newline(head), _table_warnings(blob, head))
    return open_table(blob, head, encoding_name, encoding_title, delimiter, header, quotes)


def _first_two_lines(head: str) -> tuple[str, str | None]:
    lines = [line for line in head.split(detect_newline(head), HEADER_SAMPLE_LINES) if line.strip()]
    return (lines[0] if lines else "", lines[1] if len(lines) > 1 else None)


def _table_warnings(blob: Blob, head: str) -> tuple[str, ...]:
    """Warn about data that looks like a table with unknown columns but is read as texts."""
    lines = head.split(detect_newline(head))
    delimiter = guess_table_delimiter(
        lines[: HEADER_SAMPLE_LINES if blob.is_complete else min(len(lines) - 1, HEADER_SAMPLE_LINES)]
    )
    if delimiter is None:
        return ()
    name = "tsv" if delimiter == "\t" else "csv"
    return (f"{blob.name} is read as one text per line; if it is a table, set {setting('input_format', name)}.",)
