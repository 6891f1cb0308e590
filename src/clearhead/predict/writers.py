"""Writers format rows as bytes: CSV, TSV, JSON lines, CoNLL and SQuAD."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from clearhead.caller import setting
from clearhead.errors import InputError
from clearhead.files import to_printable

LINE_END = "\r\n"  # makes csv quote cells with either character; lines are written with \n


class Writer(Protocol):
    """Formats rows as bytes that can be appended to a file."""

    kind: str
    names: tuple[str, ...]

    def header(self) -> bytes:
        """Bytes before the first row."""
        ...

    def format_row(self, values: Mapping[str, Any], *, first: bool = False) -> bytes:
        """Format one row; `first` is True for the first one."""
        ...

    def footer(self) -> bytes:
        """Bytes after the last row."""
        ...


class DelimitedWriter:
    """CSV or TSV with a header; lists are joined by |, or JSON in `nested` columns; missing values are empty."""

    def __init__(self, names: Sequence[str], nested: Collection[str], kind: str, delimiter: str) -> None:
        self.kind, self.names = kind, tuple(names)
        self._known, self._nested = frozenset(names), frozenset(nested)
        self._buffer = io.StringIO()
        self._csv = csv.writer(self._buffer, delimiter=delimiter, lineterminator=LINE_END)

    def header(self) -> bytes:
        """The column names."""
        return self._line(self.names)

    def footer(self) -> bytes:
        """No footer."""
        return b""

    def format_row(self, values: Mapping[str, Any], *, first: bool = False) -> bytes:  # noqa: ARG002
        """Format one record, which may contain line breaks."""
        if unknown := values.keys() - self._known:
            problem = f"A row has a column {to_printable(min(unknown), 40)!r} that the first rows do not have"
            raise InputError(
                f"{problem}; write JSON lines with {setting('format', 'jsonl')}, or put the input in a file."
            )
        return self._line([_format_cell(values.get(name), nested=name in self._nested) for name in self.names])

    def _line(self, cells: Sequence[str]) -> bytes:
        self._buffer.seek(0)
        self._buffer.truncate()
        self._csv.writerow(cells)
        return (self._buffer.getvalue().removesuffix(LINE_END) + "\n").encode("utf-8", "replace")


class JsonLinesWriter:
    """One JSON object per line; values keep their types."""

    kind = "jsonl"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def header(self) -> bytes:
        """No header."""
        return b""

    def footer(self) -> bytes:
        """No footer."""
        return b""

    def format_row(self, values: Mapping[str, Any], *, first: bool = False) -> bytes:  # noqa: ARG002
        """Format one line."""
        row = {name: values.get(name) for name in self.names} | dict(values)
        return (json.dumps(row, ensure_ascii=False, default=str) + "\n").encode("utf-8", "replace")


class ConllWriter:
    """CoNLL: one token per line with its input columns and predicted tag, and a blank line after each sentence."""

    kind = "conll"

    def __init__(self, names: Sequence[str], delimiter: str, *, header: bool = False) -> None:
        self.names, self._delimiter, self._header = tuple(names), delimiter, header

    def header(self) -> bytes:
        """The column names, if the input had them."""
        return f"{self._delimiter.join(self.names)}\n".encode("utf-8", "replace") if self._header else b""

    def footer(self) -> bytes:
        """No footer."""
        return b""

    def format_row(self, values: Mapping[str, Any], *, first: bool = False) -> bytes:  # noqa: ARG002
        """Format one sentence."""
        columns = [values.get(name) or () for name in self.names]
        count = len(columns[0])
        cells = zip(*(column if len(column) == count else ["O"] * count for column in columns), strict=True)
        return ("".join(f"{self._delimiter.join(line)}\n" for line in cells) + "\n").encode("utf-8", "replace")


class SquadWriter:
    """One JSON object {question id: answer}, the input format of the official SQuAD evaluation script."""

    kind = "squad"

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ("id", "answer")

    def header(self) -> bytes:
        """The start of the object."""
        return b"{"

    def footer(self) -> bytes:
        """The end of the object."""
        return b"\n}\n"

    def format_row(self, values: Mapping[str, Any], *, first: bool = False) -> bytes:
        """Format one question."""
        name, answer = (json.dumps("" if values[p] is None else str(values[p]), ensure_ascii=False) for p in self.names)
        return (f"{'' if first else ','}\n{name}: {answer}").encode("utf-8", "replace")


TASK_FORMATS = ("conll", "squad")  # only available for some tasks


def _format_cell(value: Any, *, nested: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        can_join = not nested and all(isinstance(element, str) and "|" not in element for element in value)
        return "|".join(value) if can_join else json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


WRITERS: dict[str, Callable[[Sequence[str], Collection[str]], Writer]] = {  # (column names, nested columns)
    "csv": lambda names, nested: DelimitedWriter(names, nested, "csv", ","),
    "tsv": lambda names, nested: DelimitedWriter(names, nested, "tsv", "\t"),
    "jsonl": lambda names, nested: JsonLinesWriter(names),  # noqa: ARG005
}
