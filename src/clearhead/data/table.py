"""Token ids of a whole dataset in a few flat arrays, built in one pass over its rows."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from clearhead.data.columns import Columns
from clearhead.data.examples import (
    MAX_CELL_CHARS,
    BadRows,
    RowCheck,
    TextRow,
    check_row,
    check_rows,
    hash_text,
    missing_label_row,
)
from clearhead.data.labels import Kind, LabelCounter, LabelSpace, is_missing
from clearhead.data.row_codec import MAX_ANSWER_TOKENS, TEXT_ROWS, EncodedRow, LengthPolicy, RowCodec, TextEncoder
from clearhead.data.sources.source import BadRow, Row, Source
from clearhead.deprecation import renamed_fields
from clearhead.errors import InputError
from clearhead.html import short_repr

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

CHUNK_ROWS = 1000  # rows that are tokenized together
CHUNK_CHARACTERS = 2_000_000  # a chunk of long rows ends earlier
PARTS = ("train", "dev", "test")  # meaning of the numbers in `splits`


@renamed_fields(
    turns="segment_starts", owners="window_rows", firsts="shared_hashes", marks="annotations", piece="window_ids"
)
@dataclass(frozen=True, kw_only=True)
class TokenTable:
    """Rows as token ids; a row that exceeds the maximum length has several windows."""

    ids: Array  # (tokens,) of all windows, concatenated; uint16 if the vocabulary allows
    starts: Array  # (windows + 1,) offset of each window in `ids`
    segment_starts: Array  # (windows,) number of tokens before the second segment
    window_rows: Array  # (windows,) index of the row of each window
    labels: Any  # (rows,) or (rows, names) as in `Examples`, or as the task encodes them; None: no labels
    space: LabelSpace | None
    rows: Array  # (rows,) row numbers in the source
    hashes: Array  # (rows,) 64 bits of each text
    truncated: Array  # (rows,) number of truncated tokens
    groups: Array | None = None  # (rows,) 64 bits of the id column
    shared_hashes: Array | None = None  # (rows,) 64 bits of a text that rows share: the first of a pair, a passage
    splits: Array | None = None  # (rows,) indices into PARTS
    skipped: dict[str, int] = field(default_factory=dict)
    bad: tuple[BadRow, ...] = ()
    annotations: Any = None  # task-specific facts about the tokens

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        windows = f"{len(self.starts) - 1:,} windows"
        return short_repr("TokenTable", f"{len(self):,} rows", windows, f"{len(self.ids):,} tokens")

    @property
    def lengths(self) -> Array:
        """(windows,) number of tokens of each window."""
        return self.starts[1:] - self.starts[:-1]

    def window_ids(self, window: int) -> Array:
        """Return the token ids of a window."""
        return self.ids[self.starts[window] : self.starts[window + 1]]

    def segments(self, window: int) -> Array:
        """Return the segment ids of a window: 0, then 1 from the second text on."""
        import numpy as np

        length = int(self.starts[window + 1] - self.starts[window])
        segments: Array = (np.arange(length) >= self.segment_starts[window]).astype(np.int64)
        return segments


class _TableBuilder:
    """Collects encoded rows in typed arrays, without a Python object per token."""

    def __init__(self, vocab_size: int, codec: RowCodec, policy: LengthPolicy) -> None:
        self.codec, self.policy = codec, policy
        self.ids = array("H" if vocab_size <= 1 << 16 else "i")
        self.starts, self.rows, self.hashes, self.groups = array("q", [0]), array("q"), array("Q"), array("Q")
        self.shared_hashes = array("Q")
        self.segment_starts, self.window_rows, self.truncated, self.splits = (
            array("i"),
            array("i"),
            array("i"),
            array("b"),
        )
        self.labels: list[Any] = []
        self.annotations: list[Any] = []
        self.annotated_labels: list[Any] = []
        self.bad = BadRows()

    def add(self, row: TextRow, encoded: EncodedRow) -> None:
        row_index = len(self.rows)
        for window in encoded.windows:
            self.ids.extend(window.ids)
            self.starts.append(len(self.ids))
            self.segment_starts.append(window.segments.index(1) if 1 in window.segments else len(window.ids))
            self.window_rows.append(row_index)
        self.rows.append(row.number)
        self.hashes.append(hash_text(row.text, row.text_b))
        self.truncated.append(sum(window.truncated for window in encoded.windows))
        shared = self.codec.shared_text(row)
        if shared is not None:
            self.shared_hashes.append(hash_text(shared))
        if self.codec.annotate is not None:
            self.annotations.append(encoded.annotations)
            self.annotated_labels.append(row.label)
        self.groups.append(hash_text(row.id) if row.id is not None else self.hashes[-1])
        self.splits.append(PARTS.index(row.split) if row.split is not None else -1)

    def table(self, columns: Columns, space: LabelSpace | None) -> TokenTable:
        import numpy as np

        def view(values: array[Any]) -> Array:  # no copy
            return np.frombuffer(values, values.typecode) if len(values) else np.zeros(0, values.typecode)

        return TokenTable(
            ids=view(self.ids),
            starts=view(self.starts),
            segment_starts=view(self.segment_starts),
            window_rows=view(self.window_rows),
            labels=self.codec.join_labels(self.labels) if self.labels else None,
            space=space,
            rows=view(self.rows),
            hashes=view(self.hashes),
            truncated=view(self.truncated),
            groups=view(self.groups) if columns.id is not None else None,
            shared_hashes=view(self.shared_hashes) if len(self.shared_hashes) == len(self.rows) > 0 else None,
            splits=view(self.splits) if columns.split is not None else None,
            skipped=dict(self.bad.counts),
            bad=tuple(self.bad.first),
            annotations=None
            if self.codec.annotate is None
            else self.codec.annotate(
                self.annotations, self.annotated_labels if space is not None else None, self.policy
            ),
        )


def survey_rows(
    source: Source,
    columns: Columns,
    labels: LabelSpace | None = None,
    *,
    kind: Kind | None = None,
    separator: str | None = None,
    skip_bad_rows: bool = False,
    max_cell: int = MAX_CELL_CHARS,
    check: RowCheck | None = None,
    counter: Any = None,
) -> LabelSpace | None:
    """Find the label space in a first pass, and report bad rows before any expensive work starts."""
    bad, unlabeled = BadRows(), BadRows()
    good_count = 0
    if labels is None and kind == "number":
        labels = LabelSpace(kind="number")
    counter = LabelCounter(kind=kind, separator=separator) if counter is None else counter
    for row in check_rows(source, columns, labels, max_cell=max_cell, check=check):
        if isinstance(row, BadRow):
            bad.add(row)
        elif labels is None and columns.label is not None and is_missing(row.label):
            unlabeled.add(missing_label_row(row))
        else:
            good_count += 1
            if labels is None and columns.label is not None:
                counter.add(row.label)
    if counter.total and counter.space().kind == "multilabel":
        good_count += unlabeled.total  # an empty set of labels is valid
    else:
        bad.merge(unlabeled)
    if not skip_bad_rows:
        bad.raise_if_any(source, good_count)
    if not good_count:
        raise InputError(f"{source.name} has no usable rows.")
    return None if columns.label is None else labels or counter.space()


def encode_table(
    source: Source,
    columns: Columns,
    tokenizer: TextEncoder,
    labels: LabelSpace | None = None,
    *,
    kind: Kind | None = None,
    separator: str | None = None,
    max_length: int | None = None,
    long: str = "window",
    stride: int = 0,
    max_answer: int = MAX_ANSWER_TOKENS,
    max_tokens: int | None = None,
    skip_bad_rows: bool = False,
    max_cell: int = MAX_CELL_CHARS,
    codec: RowCodec = TEXT_ROWS,
) -> TokenTable:
    """Tokenize all rows; memory holds token ids and about forty bytes per row, never the texts."""
    if labels is None and columns.label is not None:
        if not source.is_rereadable:
            raise InputError(
                f"{source.name} can be read only once, but its labels are unknown; save it to a file first."
            )
        labels = survey_rows(
            source, columns, kind=kind, separator=separator, skip_bad_rows=skip_bad_rows, max_cell=max_cell
        )
    policy = LengthPolicy(max_length=max_length, long=long, stride=stride, max_answer=max_answer, max_tokens=max_tokens)
    builder = _TableBuilder(tokenizer.vocab_size, codec, policy)
    check = None if codec.check_row is check_row else codec.check_row
    rows = check_rows(source, columns, labels, max_cell=max_cell, check=check)
    while _encode_chunk(builder, rows, tokenizer, labels, CHUNK_ROWS):
        pass
    if not skip_bad_rows:
        builder.bad.raise_if_any(source, len(builder.rows))
    if not builder.rows:
        raise InputError(f"{source.name} has no usable rows.")
    return builder.table(columns, labels)


def encode_stream(
    source: Source,
    columns: Columns,
    tokenizer: TextEncoder,
    labels: LabelSpace | None = None,
    *,
    max_length: int | None = None,
    long: str = "window",
    stride: int = 0,
    chunk: int = CHUNK_ROWS,
    max_cell: int = MAX_CELL_CHARS,
) -> Iterator[TokenTable]:
    """Yield tables of at most `chunk` rows, each with the bad rows among them."""
    used_columns = columns if labels is not None else replace(columns, label=None)
    rows = check_rows(source, used_columns, labels, max_cell=max_cell)
    policy = LengthPolicy(max_length=max_length, long=long, stride=stride)
    while True:
        builder = _TableBuilder(tokenizer.vocab_size, TEXT_ROWS, policy)
        if not _encode_chunk(builder, rows, tokenizer, labels, chunk):
            return
        yield builder.table(used_columns, labels)


def encode_rows(
    rows: Sequence[TextRow],
    columns: Columns,
    tokenizer: TextEncoder,
    labels: LabelSpace | None = None,
    policy: LengthPolicy | None = None,
    codec: RowCodec = TEXT_ROWS,
) -> TokenTable:
    """Tokenize checked rows into one table."""
    builder = _TableBuilder(tokenizer.vocab_size, codec, policy or LengthPolicy())
    row_iterator: Iterator[TextRow | BadRow] = iter(rows)
    while _encode_chunk(builder, row_iterator, tokenizer, labels, CHUNK_ROWS):
        pass
    return builder.table(columns, labels)


def _encode_chunk(
    builder: _TableBuilder,
    rows: Iterator[TextRow | BadRow],
    tokenizer: TextEncoder,
    labels: LabelSpace | None,
    max_rows: int,
) -> bool:
    """Encode the next rows, at most `max_rows`; return False at the end."""
    chunk = _take_chunk(rows, max_rows)
    good_rows = [row for row in chunk if isinstance(row, TextRow)]
    for row in chunk:
        if isinstance(row, BadRow):
            builder.bad.add(row)
    if good_rows:
        for row, encoded in zip(good_rows, builder.codec.encode(good_rows, tokenizer, builder.policy), strict=True):
            builder.add(row, encoded)
        if labels is not None:
            builder.labels.append(builder.codec.encode_labels([row.label for row in good_rows], labels))
    return bool(chunk)


def _take_chunk(rows: Iterator[TextRow | BadRow], max_rows: int) -> list[TextRow | BadRow]:
    """Take the next rows, fewer if they are long, so that memory is bounded."""
    chunk: list[TextRow | BadRow] = []
    characters = 0
    for row in islice(rows, max_rows):
        chunk.append(row)
        characters += len(row.text) + len(row.text_b or "") if isinstance(row, TextRow) else 0
        if characters > CHUNK_CHARACTERS:
            break
    return chunk


def read_rows(source: Source, numbers: Iterable[int]) -> dict[int, Row]:
    """Read rows by number, in a pass that ends at the last of them."""
    row_numbers = {int(number) for number in numbers}
    rows: dict[int, Row] = {}
    if not row_numbers:
        return rows
    last = max(row_numbers)
    for row in source.rows():
        if isinstance(row, Row) and row.number in row_numbers:
            rows[row.number] = row
        if row.number >= last:
            break
    return rows
