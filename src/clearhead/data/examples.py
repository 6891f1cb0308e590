"""Check rows, encode their labels, and report all unusable rows in one error."""

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
MAX_LABEL_TABLE_BYTES = 1 << 30  # of a (rows, labels) table
MAX_LISTED_ROWS = 20  # bad rows in an error message
MAX_KEPT_ROWS = 1000  # bad rows in a report


@dataclass(frozen=True, slots=True)
class TextRow:
    """A checked row."""

    number: int
    text: str
    text_b: str | None
    label: Any  # raw, or encoded if the label space is known; None: no label
    id: str | None
    split: str | None  # train, dev or test
    line: int | None = None
    extra: Any = None  # other inputs of the task: the words of a text, the options of a question


RowCheck = Callable[[Row, Columns, LabelSpace | None], TextRow | BadRow]


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Texts and labels in memory, in the order of their rows."""

    texts: list[str]
    texts_b: list[str] | None
    labels: Array | None  # (rows,) classes or numbers, or (rows, names) of 0 and 1 for several labels a row
    space: LabelSpace | None
    rows: Array  # row numbers in the source
    hashes: Array  # 64-bit hashes of the texts
    ids: list[str] | None = None
    splits: list[str] | None = None
    skipped: dict[str, int] = field(default_factory=dict)  # bad rows by problem
    bad: tuple[BadRow, ...] = ()  # the first bad rows

    def __len__(self) -> int:
        return len(self.texts)

    def select(self, indices: Sequence[int] | Array) -> Examples:
        """Select examples by index, in the given order."""
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
    """Counts rows that cannot be used, and keeps the first of them."""

    def __init__(self) -> None:
        self.first: list[BadRow] = []
        self.counts: Counter[str] = Counter()

    def add(self, row: BadRow) -> None:
        """Add a row."""
        self.counts[row.problem] += 1
        if len(self.first) < MAX_KEPT_ROWS:
            self.first.append(row)

    def merge(self, other: BadRows) -> None:
        """Add the rows of another collection, in the order of row numbers."""
        self.counts.update(other.counts)
        self.first = sorted([*self.first, *other.first], key=lambda row: row.number)[:MAX_KEPT_ROWS]

    @property
    def total(self) -> int:
        """Number of bad rows."""
        return self.counts.total()

    def describe(self, source: Source, good_count: int) -> str:
        """Format the number of bad rows and the first of them with their reasons, one per line."""
        lines = [f"  {row}" for row in self.first[:MAX_LISTED_ROWS]]
        if self.total > MAX_LISTED_ROWS:
            lines.append(f"  and {self.total - MAX_LISTED_ROWS:,} more")
        head = f"{source.name}: {self.total:,} of {self.total + good_count:,} rows cannot be used:"
        return "\n".join((head, *lines))

    def raise_if_any(self, source: Source, good_count: int) -> None:
        """Raise one error that lists the bad rows, if there are any."""
        if not self.total:
            return
        raise InputError(
            self.describe(source, good_count) + f"\nFix these rows, or skip them with {setting('skip_bad_rows', True)}."
        )


def missing_label_row(row: TextRow) -> BadRow:
    """Report a row without a label as a bad row."""
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
    """Load all rows of a source into memory; unusable rows raise one error, or are counted and skipped."""
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
    """Yield the checked rows of a source; with `labels`, their labels are encoded."""
    for row in source.rows():
        if isinstance(row, BadRow):
            yield row
        else:
            yield check_row(row, columns, labels, max_cell=max_cell) if check is None else check(row, columns, labels)


def check_row(
    row: Row, columns: Columns, labels: LabelSpace | None = None, *, max_cell: int = MAX_CELL_CHARS
) -> TextRow | BadRow:
    """Check the used columns of a row."""
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
            reason = "the label contains a NUL byte or a lone surrogate"
            return BadRow(row.number, reason, excerpt(label), row.line, HALF_CHARACTER)
        if labels is not None:
            label = _encode_label(row.number, row.line, label, labels)
            if isinstance(label, BadRow):
                return label
        elif label is None or (isinstance(label, float) and is_missing(label)):
            return BadRow(row.number, "the label is missing", excerpt(text), row.line, MISSING_LABEL)
    return TextRow(row.number, text, text_b, label, read_id(row, columns), split, row.line)


def read_id(row: Row, columns: Columns) -> str | None:
    """Read the id of a row as a string."""
    cell = None if columns.id is None else row.values.get(columns.id)
    return None if cell is None else str(cell)


def read_split(row: Row, columns: Columns) -> str | BadRow | None:
    """Read the split of a row: train, dev or test."""
    if columns.split is None:
        return None
    cell = row.values.get(columns.split)
    split = SPLIT_ALIASES.get(str(cell).strip().casefold())
    if split is None:
        return BadRow(row.number, f"split {excerpt(cell)!r} is not train, dev or test", "", row.line, UNKNOWN_SPLIT)
    return split


def read_text(row: Row, column: str, max_characters: int = MAX_CELL_CHARS) -> str | BadRow:
    """Read and check the text in a column."""
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
        return BadRow(row.number, f"{format_column(column)} contains a NUL byte", excerpt(value), row.line, NUL_BYTE)
    if not value.isascii() and SURROGATE.search(value):
        reason = f"{format_column(column)} contains a lone surrogate"
        return BadRow(row.number, reason, excerpt(value), row.line, HALF_CHARACTER)
    return value


def _encode_label(number: int, line: int | None, value: Any, labels: LabelSpace) -> Any:
    """Encode a label."""
    if is_missing(value) and not (labels.kind == "multilabel" and isinstance(value, str)):
        return BadRow(number, "the label is missing", "", line, MISSING_LABEL)
    try:
        return labels.encode(value)
    except InputError as error:
        return BadRow(number, str(error), "", line, UNKNOWN_LABEL)


def labels_to_array(encoded_labels: Sequence[Any], space: LabelSpace) -> Array:
    """Convert encoded labels to an array: (rows,) of classes or numbers, or (rows, names) of 0 and 1."""
    import numpy as np

    if space.kind == "classes":
        return np.array(encoded_labels, np.int32)
    if space.kind == "number":
        return np.array(encoded_labels, np.float64)
    if len(encoded_labels) * len(space) > MAX_LABEL_TABLE_BYTES:
        raise InputError(
            f"The label column has too many distinct labels ({len(space):,} in {len(encoded_labels):,} rows); "
            "is it the right column?"
        )
    table = np.zeros((len(encoded_labels), len(space)), np.uint8)
    for row, label_ids in enumerate(encoded_labels):
        table[row, list(label_ids)] = 1
    return table


def hash_text(text: str, text_b: str | None = None) -> int:
    """Hash a text to 64 bits, ignoring case and whitespace."""
    normalized = " ".join(text.casefold().split())
    if text_b is not None:
        normalized = f"{normalized}\x1f{' '.join(text_b.casefold().split())}"
    return int.from_bytes(blake2b(normalized.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
