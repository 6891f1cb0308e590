"""What a reader gives: rows, rows that cannot be used, and a frozen description of where they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from clearhead.deprecation import renamed_fields
from clearhead.errors import InputError
from clearhead.files import to_printable

# the kinds of trouble a row can have: what counts are kept by
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
    """One row, its values by column, and its number as a person counts: 1 is the first row of data."""

    number: int
    values: dict[str, Any]
    line: int | None = None  # where it starts in a text file, counted from 1


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used, and why."""

    number: int
    reason: str
    excerpt: str = ""
    line: int | None = None
    problem: str = DAMAGED_FILE  # what it is counted under

    def __str__(self) -> str:
        where = f"row {self.number:,}" + (f" (line {self.line:,})" if self.line is not None else "")
        return f"{where}: {self.reason}" + (f": {self.excerpt}" if self.excerpt else "")


Rows = Iterator[Row | BadRow]


def excerpt(text: object) -> str:
    """The beginning of a value, short and printable."""
    return to_printable(str(text)[: 4 * MAX_EXCERPT_CHARS].strip(), MAX_EXCERPT_CHARS - 3)


def format_names(columns: Sequence[str]) -> str:
    """Format column names for a message, the first 20 of them."""
    return ", ".join(map(excerpt, columns[:20])) + (", ..." if len(columns) > 20 else "")


class OneTimeRows:
    """Rows that can be read a single time, with a look at the first ones before."""

    def __init__(self, rows: Rows, name: str) -> None:
        self._rows, self._name = rows, name
        self._head: list[Row | BadRow] = []
        self._used = False

    def peek(self, count: int) -> list[Row | BadRow]:
        """The first rows, which `__call__` will give again."""
        self._head += islice(self._rows, max(count - len(self._head), 0))
        return self._head[:count]

    def __call__(self) -> Rows:
        if self._used:
            raise InputError(f"{self._name} can be read only once; put it in a file to read it again.")
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
    quotes: bool | None = None  # whether quote characters wrap cells or are letters
    messages: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # what people may have meant otherwise, in sentences
    label_names: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of columns that hold numbers for names
    open: Callable[[], Rows] = field(repr=False, compare=False)
    count_blank_lines: Callable[[], int] = field(
        default=lambda: 0, repr=False, compare=False
    )  # of texts a line, so far

    @property
    def is_rereadable(self) -> bool:
        """Whether the rows can be read more than once."""
        return not isinstance(self.open, OneTimeRows)

    def rows(self) -> Rows:
        """All rows as a stream; a row that cannot be used comes as a `BadRow`, never as an exception."""
        return self.open()

    def sample(self, count: int = 1000) -> list[Row | BadRow]:
        """The first rows, also of what can be read only once."""
        return self.open.peek(count) if isinstance(self.open, OneTimeRows) else list(islice(self.open(), count))
