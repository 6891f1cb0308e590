"""Rows that are ready to use, and one error that lists all that are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.data.columns import Columns, format_column
from clearhead.data.labels import Kind, LabelCounter, LabelSpace, is_missing, is_valid_text
from clearhead.data.names import SPLIT_ALIASES
from clearhead.data.sources.files import SURROGATE
from clearhead.data.sources.source import (
    EMPTY_TEXT,
    HALF_CHARACTER,
    MISSING_LABEL,
    NOT_A_TEXT,
    NUL_BYTE,
    TOO_LONG,
    UNKNOWN_LABEL,
    UNKNOWN_SPLIT,
    BadRow,
    Row,
    Source,
    excerpt,
)
from clearhead.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_CELL_CHARS = 10_000_000  # characters; the longest novels have five million
MAX_LABEL_TABLE_BYTES = 1 << 30  # bytes of a table of labels
MAX_LISTED_ROWS = 20  # bad rows that an error shows
MAX_KEPT_ROWS = 1000  # bad rows that are kept for a report


@dataclass(frozen=True, slots=True)
class TextRow:
    """A row that is ready to use."""

    number: int
    text: str
    text_b: str | None
    label: Any  # as it came, or encoded when the labels are known; None if there is none
    id: str | None
    split: str | None  # train, dev or test
    line: int | None = None
    extra: Any = None  # what a task reads beside the texts: the words of a text, the options of a question


RowCheck = Callable[[Row, Columns, LabelSpace | None], TextRow | BadRow]


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Texts and labels in memory, in the order of their rows."""

    texts: list[str]
    texts_b: list[str] | None
    labels: Array | None  # (rows,) classes or numbers, or (rows, names) of 0 and 1 for several labels a row
    space: LabelSpace | None
    rows: Array  # their numbers in the source
    hashes: Array  # 64 bits of each text, equal for equal texts
    ids: list[str] | None = None
    splits: list[str] | None = None
    skipped: dict[str, int] = field(default_factory=dict)  # bad rows by problem
    bad: tuple[BadRow, ...] = ()  # the first of them

    def __len__(self) -> int:
        return len(self.texts)

    def select(self, indices: Sequence[int] | Array) -> Examples:
        """Some of them, in the order asked for."""
        indices_list = [int(index) for index in indices]

        def pick(values: list[str] | None) -> list[str] | None:
            return None if values is None else [values[index] for index in indices_list]

        return Examples(
            texts=[self.texts[index] for index in indices_list],
            texts_b=pick(self.texts_b),
            labels=None if self.labels is None else self.labels[indices_list],
            space=self.space,
            rows=self.rows[indices_list],
            hashes=self.hashes[indices_list],
            ids=pick(self.ids),
            splits=pick(self.splits),
        )


class BadRows:
    """Collects rows that cannot be used: the first ones whole, all of them counted."""

    def __init__(self) -> None:
        self.first: list[BadRow] = []
        self.counts: Counter[str] = Counter()

    def add(self, row: BadRow) -> None:
        """One more."""
        self.counts[row.problem] += 1
        if len(self.first) < MAX_KEPT_ROWS:
            self.first.append(row)

    def merge(self, other: BadRows) -> None:
        """More, in their place."""
        self.counts.update(other.counts)
        self.first = sorted([*self.first, *other.first], key=lambda row: row.number)[:MAX_KEPT_ROWS]

    @property
    def total(self) -> int:
        """How many there are."""
        return self.counts.total()

    def describe(self, source: Source, good_count: int) -> str:
        """How many of the rows cannot be used, and the first of them with the reason, a line each."""
        lines = [f"  {row}" for row in self.first[:MAX_LISTED_ROWS]]
        if self.total > MAX_LISTED_ROWS:
            lines.append(f"  and {self.total - MAX_LISTED_ROWS:,} more")
        head = f"{source.name}: {self.total:,} of {self.total + good_count:,} rows cannot be used:"
        return "\n".join((head, *lines))

    def raise_if_any(self, source: Source, good_count: int) -> None:
        """Raise the one error that lists them, if there are any."""
        if not self.total:
            return
        raise InputError(
            self.describe(source, good_count) + f"\nFix these rows, or skip them with {setting('skip_bad_rows', True)}."
        )


def missing_label_row(row: TextRow) -> BadRow:
    """A row whose label is missing, as it is listed."""
    return BadRow(row.number, "the label is missing", excerpt(row.text), row.line, MISSING_LABEL)


def load_examples(
    source: Source,
    columns: Columns,
    labels: LabelSpace | None = None,
    *,
    kind: Kind | None = None,
    separator: str | None = None,
    skip_bad_rows: bool = False,
    max_cell: int = MAX_CELL_CHARS,
) -> Examples:
    """All rows of a source in memory; rows that cannot be used are one error, or counted and left out."""
    import numpy as np

    bad_rows = BadRows()
    rows: list[TextRow] = []
    counter = LabelCounter(kind=kind, separator=separator) if labels is None and columns.label is not None else None
    for row in check_rows(source, columns, labels, max_cell=max_cell):
        if isinstance(row, BadRow):
            bad_rows.add(row)
            continue
        if counter is not None and not is_missing(row.label):
            counter.add(row.label)
        rows.append(row)
    space = counter.space() if counter is not None else labels if columns.label is not None else None
    encoded_labels: list[Any] = [row.label for row in rows]
    if counter is not None and space is not None:
        rows, encoded_labels = _encode_labels(rows, space, bad_rows)
    if not skip_bad_rows:
        bad_rows.raise_if_any(source, len(rows))
    if not rows:
        raise InputError(f"{source.name} has no usable rows.")
    return Examples(
        texts=[row.text for row in rows],
        texts_b=None if columns.text_b is None else [row.text_b or "" for row in rows],
        labels=None if space is None else labels_to_array(encoded_labels, space),
        space=space,
        rows=np.array([row.number for row in rows], np.int64),
        hashes=np.array([hash_text(row.text, row.text_b) for row in rows], np.uint64),
        ids=None if columns.id is None else [row.id or "" for row in rows],
        splits=None if columns.split is None else [row.split or "" for row in rows],
        skipped=dict(bad_rows.counts),
        bad=tuple(bad_rows.first),
    )


def _encode_labels(rows: list[TextRow], space: LabelSpace, bad_rows: BadRows) -> tuple[list[TextRow], list[Any]]:
    good_rows, encoded_labels = [], []
    for row in rows:
        label = _encode_label(row.number, row.line, row.label, space)
        if isinstance(label, BadRow):
            bad_rows.add(label)
        else:
            good_rows.append(row)
            encoded_labels.append(label)
    bad_rows.first.sort(key=lambda bad_row: bad_row.number)
    return good_rows, encoded_labels


def check_rows(
    source: Source,
    columns: Columns,
    labels: LabelSpace | None = None,
    *,
    max_cell: int = MAX_CELL_CHARS,
    check: RowCheck | None = None,
) -> Iterator[TextRow | BadRow]:
    """The rows of a source one by one, each checked; with `labels`, their labels are encoded."""
    for row in source.rows():
        if isinstance(row, BadRow):
            yield row
        else:
            yield check_row(row, columns, labels, max_cell=max_cell) if check is None else check(row, columns, labels)


def check_row(
    row: Row, columns: Columns, labels: LabelSpace | None = None, *, max_cell: int = MAX_CELL_CHARS
) -> TextRow | BadRow:
    """What a row says in the columns that are used, or what is wrong with it."""
    text = read_text(row, columns.text, max_cell)
    if isinstance(text, BadRow):
        return text
    text_b = None if columns.text_b is None else read_text(row, columns.text_b, max_cell)
    if isinstance(text_b, BadRow):
        return text_b
    split = read_split(row, columns)
    if isinstance(split, BadRow):
        return split
    label = None
    if columns.label is not None:
        label = row.values.get(columns.label)
        if not is_valid_text(label):
            reason = "the label holds a NUL byte or half a character"
            return BadRow(row.number, reason, excerpt(label), row.line, HALF_CHARACTER)
        if labels is not None:
            label = _encode_label(row.number, row.line, label, labels)
            if isinstance(label, BadRow):
                return label
        elif label is None or (isinstance(label, float) and is_missing(label)):
            return BadRow(row.number, "the label is missing", excerpt(text), row.line, MISSING_LABEL)
    return TextRow(row.number, text, text_b, label, read_id(row, columns), split, row.line)


def read_id(row: Row, columns: Columns) -> str | None:
    """The id of a row, as a string."""
    cell = None if columns.id is None else row.values.get(columns.id)
    return None if cell is None else str(cell)


def read_split(row: Row, columns: Columns) -> str | BadRow | None:
    """The part that a row says it belongs to."""
    if columns.split is None:
        return None
    cell = row.values.get(columns.split)
    split = SPLIT_ALIASES.get(str(cell).strip().casefold())
    if split is None:
        return BadRow(row.number, f"split {excerpt(cell)!r} is none of train, dev, test", "", row.line, UNKNOWN_SPLIT)
    return split


def read_text(row: Row, column: str, max_characters: int = MAX_CELL_CHARS) -> str | BadRow:
    """The text in a column, or what is wrong with it."""
    value = row.values.get(column)
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        value = str(value)
    if value is None or isinstance(value, float):
        return BadRow(row.number, f"{format_column(column)} is missing", "", row.line, EMPTY_TEXT)
    if not isinstance(value, str):
        reason = f"{format_column(column)} is a {type(value).__name__}, expected a text"
        return BadRow(row.number, reason, excerpt(value), row.line, NOT_A_TEXT)
    if not value.strip():
        return BadRow(row.number, f"{format_column(column)} is empty", "", row.line, EMPTY_TEXT)
    if len(value) > max_characters:
        reason = f"{format_column(column)} has {len(value):,} characters, more than {max_characters:,}"
        return BadRow(row.number, reason, excerpt(value), row.line, TOO_LONG)
    if "\0" in value:
        return BadRow(row.number, f"{format_column(column)} holds a NUL byte", excerpt(value), row.line, NUL_BYTE)
    if not value.isascii() and SURROGATE.search(value):
        reason = f"{format_column(column)} holds half a character (a lone surrogate)"
        return BadRow(row.number, reason, excerpt(value), row.line, HALF_CHARACTER)
    return value


def _encode_label(number: int, line: int | None, value: Any, labels: LabelSpace) -> Any:
    """A label as models use it, or what is wrong with it."""
    if is_missing(value) and not (labels.kind == "multilabel" and isinstance(value, str)):
        return BadRow(number, "the label is missing", "", line, MISSING_LABEL)
    try:
        return labels.encode(value)
    except InputError as error:
        return BadRow(number, str(error), "", line, UNKNOWN_LABEL)


def labels_to_array(encoded_labels: Sequence[Any], space: LabelSpace) -> Array:
    """Encoded labels as an array: (rows,) of classes or numbers, or (rows, names) of 0 and 1."""
    import numpy as np

    if space.kind == "classes":
        return np.array(encoded_labels, np.int32)
    if space.kind == "number":
        return np.array(encoded_labels, np.float64)
    if len(encoded_labels) * len(space) > MAX_LABEL_TABLE_BYTES:
        raise InputError(
            f"{len(space):,} different labels for {len(encoded_labels):,} rows are too many: are they labels?"
        )
    table = np.zeros((len(encoded_labels), len(space)), np.uint8)
    for row, label_ids in enumerate(encoded_labels):
        table[row, list(label_ids)] = 1
    return table


def hash_text(text: str, text_b: str | None = None) -> int:
    """64 bits of a text, the same for texts that differ only in case and space."""
    normalized = " ".join(text.casefold().split())
    if text_b is not None:
        normalized = f"{normalized}\x1f{' '.join(text_b.casefold().split())}"
    return int.from_bytes(blake2b(normalized.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
