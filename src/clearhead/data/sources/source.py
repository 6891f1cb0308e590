"""Rows, bad rows, and a frozen description of their source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from clearhead.deprecation import renamed_fields
from clearhead.errors import InputError
from clearhead.files import to_printable

# problems of rows, used as keys of counts
WRONG_CELL_COUNT = "wrong number of cells"
BROKEN_QUOTES = "broken quotes"
NUL_BYTE = "NUL byte"
TOO_LONG = "too long"
WRONG_ENCODING = "not text in this encoding"
BROKEN_JSON = "broken JSON"
NOT_AN_OBJECT = "not an object"
DAMAGED_FILE = "damaged file"
EMPTY_TEXT = "empty text"
NOT_A_TEXT = "not a text"
MISSING_LABEL = "missing label"
UNKNOWN_LABEL = "unknown label"
UNKNOWN_SPLIT = "unknown split"
HALF_CHARACTER = "half a character"

MAX_EXCERPT_CHARS = 60


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its values by column, and its number, counted from 1 without the header."""

    number: int
    values: dict[str, Any]
    line: int | None = None  # first line in a text file, counted from 1


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used, and the reason."""

    number: int
    reason: str
    excerpt: str = ""
    line: int | None = None
    problem: str = DAMAGED_FILE  # key for counting

    def __str__(self) -> str:
        where = f"row {self.number:,}" + (f" (line {self.line:,})" if self.line is not None else "")
        return f"{where}: {self.reason}" + (f": {self.excerpt}" if self.excerpt else "")


Rows = Iterator[Row | BadRow]


def excerpt(text: object) -> str:
    """Return the beginning of a value, short and printable."""
    return to_printable(str(text)[: 4 * MAX_EXCERPT_CHARS].strip(), MAX_EXCERPT_CHARS - 3)


def format_names(columns: Sequence[str]) -> str:
    """Format column names for a message, the first 20 of them."""
    return ", ".join(map(excerpt, columns[:20])) + (", ..." if len(columns) > 20 else "")


class OneTimeRows:
    """Rows that can be read only once; the first ones can be peeked at."""

    def __init__(self, rows: Rows, name: str) -> None:
        self._rows, self._name = rows, name
        self._head: list[Row | BadRow] = []
        self._used = False

    def peek(self, count: int) -> list[Row | BadRow]:
        """Return the first rows, which `__call__` yields again."""
        self._head += islice(self._rows, max(count - len(self._head), 0))
        return self._head[:count]

    def __call__(self) -> Rows:
        if self._used:
            raise InputError(f"{self._name} can be read only once; save it to a file to read it again.")
        self._used = True
        return chain(self._head, self._rows)


@renamed_fields(said="messages", again="is_rereadable", blank_lines="count_blank_lines")
@dataclass(frozen=True, kw_only=True)
class Source:
    """Where rows come from and how they are read; `messages` describe what was detected."""

    name: str
    kind: str  # csv, tsv, jsonl, json, parquet, lines, folder, arrow, frame, list or pairs
    columns: tuple[str, ...]
    path: Path | None = None
    delimiter: str | None = None
    encoding: str | None = None
    compression: str | None = None
    has_header: bool | None = None
    quotes: bool | None = None  # whether cells may be quoted
    messages: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # about ambiguous input
    label_names: dict[str, tuple[str, ...]] = field(default_factory=dict)  # class names by column
    open: Callable[[], Rows] = field(repr=False, compare=False)
    count_blank_lines: Callable[[], int] = field(
        default=lambda: 0, repr=False, compare=False
    )  # of files with one text per line, in the last pass

    @property
    def is_rereadable(self) -> bool:
        """Whether the rows can be read more than once."""
        return not isinstance(self.open, OneTimeRows)

    def rows(self) -> Rows:
        """Stream all rows; a row that cannot be read is a `BadRow`, never an exception."""
        return self.open()

    def sample(self, count: int = 1000) -> list[Row | BadRow]:
        """Return the first rows, also of a source that can be read only once."""
        return self.open.peek(count) if isinstance(self.open, OneTimeRows) else list(islice(self.open(), count))
