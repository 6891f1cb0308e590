"""Token ids of a whole data set in a few flat arrays, made in one pass over its rows."""

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

CHUNK_ROWS = 1000  # rows that are encoded together
CHUNK_CHARACTERS = 2_000_000  # of them
PARTS = ("train", "dev", "test")  # what the numbers in `splits` mean


@renamed_fields(
    turns="segment_starts", owners="window_rows", firsts="shared_hashes", marks="annotations", piece="window_ids"
)
@dataclass(frozen=True, kw_only=True)
class TokenTable:
    """Rows as token ids: a row has one piece, or several windows when it is longer than the model."""

    ids: Array  # (tokens,) of all pieces one after the other; uint16 if the vocabulary allows
    starts: Array  # (pieces + 1,) where each piece begins
    segment_starts: Array  # (pieces,) how many of a piece's tokens stand before the second segment
    window_rows: Array  # (pieces,) which row a piece is from, counted from 0
    labels: Any  # (rows,) or (rows, names), as in `Examples`, or as the task has them; None if there are none
    space: LabelSpace | None
    rows: Array  # (rows,) their numbers in the source
    hashes: Array  # (rows,) 64 bits of each text
    truncated: Array  # (rows,) tokens that were cut off
    groups: Array | None = None  # (rows,) 64 bits of the id column
    shared_hashes: Array | None = None  # (rows,) 64 bits of what rows share: the first of two texts, a passage
    splits: Array | None = None  # (rows,) places in PARTS
    skipped: dict[str, int] = field(default_factory=dict)
    bad: tuple[BadRow, ...] = ()
    annotations: Any = None  # what a task must know of the tokens

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        pieces = f"{len(self.starts) - 1:,} pieces"
        return short_repr("TokenTable", f"{len(self):,} rows", pieces, f"{len(self.ids):,} tokens")

    @property
    def lengths(self) -> Array:
        """(pieces,) tokens of each piece."""
        return self.starts[1:] - self.starts[:-1]

    def window_ids(self, place: int) -> Array:
        """The ids of one piece."""
        return self.ids[self.starts[place] : self.starts[place + 1]]

    def segments(self, place: int) -> Array:
        """The segments of one piece: 0, then 1 from the second text on."""
        import numpy as np

        length = int(self.starts[place + 1] - self.starts[place])
        found: Array = (np.arange(length) >= self.segment_starts[place]).astype(np.int64)
        return found


class _TableBuilder:
    """Columns that grow by appending, without Python objects for what is in them."""

    def __init__(self, vocab: int, form: RowCodec, fit: LengthPolicy) -> None:
        self.form, self.fit = form, fit
        self.ids = array("H" if vocab <= 1 << 16 else "i")
        self.starts, self.rows, self.hashes, self.groups = array("q", [0]), array("q"), array("Q"), array("Q")
        self.firsts = array("Q")
        self.turns, self.owners, self.truncated, self.splits = array("i"), array("i"), array("i"), array("b")
        self.labels: list[Any] = []
        self.marks: list[Any] = []
        self.truths: list[Any] = []
        self.bad = BadRows()

    def add(self, row: TextRow, pieces: EncodedRow) -> None:
        owner = len(self.rows)
        for piece in pieces.windows:
            self.ids.extend(piece.ids)
            self.starts.append(len(self.ids))
            self.turns.append(piece.segments.index(1) if 1 in piece.segments else len(piece.ids))
            self.owners.append(owner)
        self.rows.append(row.number)
        self.hashes.append(hash_text(row.text, row.text_b))
        self.truncated.append(sum(piece.truncated for piece in pieces.windows))
        shared = self.form.shared_text(row)
        if shared is not None:
            self.firsts.append(hash_text(shared))
        if self.form.annotate is not None:
            self.marks.append(pieces.annotations)
            self.truths.append(row.label)
        self.groups.append(hash_text(row.id) if row.id is not None else self.hashes[-1])
        self.splits.append(PARTS.index(row.split) if row.split is not None else -1)

    def table(self, columns: Columns, space: LabelSpace | None) -> TokenTable:
        import numpy as np

        def view(values: array[Any]) -> Array:  # no copy
            return np.frombuffer(values, values.typecode) if len(values) else np.zeros(0, values.typecode)

        return TokenTable(
            ids=view(self.ids),
            starts=view(self.starts),
            segment_starts=view(self.turns),
            window_rows=view(self.owners),
            labels=self.form.join_labels(self.labels) if self.labels else None,
            space=space,
            rows=view(self.rows),
            hashes=view(self.hashes),
            truncated=view(self.truncated),
            groups=view(self.groups) if columns.id is not None else None,
            shared_hashes=view(self.firsts) if len(self.firsts) == len(self.rows) > 0 else None,
            splits=view(self.splits) if columns.split is not None else None,
            skipped=dict(self.bad.counts),
            bad=tuple(self.bad.first),
            annotations=None
            if self.form.annotate is None
            else self.form.annotate(self.marks, self.truths if space is not None else None, self.fit),
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
    """A first pass that finds the labels, and refuses bad rows before anything costly is done with the good ones."""
    bad, blank = BadRows(), BadRows()
    good = 0
    if labels is None and kind == "number":
        labels = LabelSpace(kind="number")
    counter = LabelCounter(kind=kind, separator=separator) if counter is None else counter
    for row in check_rows(source, columns, labels, max_cell=max_cell, check=check):
        if isinstance(row, BadRow):
            bad.add(row)
        elif labels is None and columns.label is not None and is_missing(row.label):
            blank.add(missing_label_row(row))
        else:
            good += 1
            if labels is None and columns.label is not None:
                counter.add(row.label)
    if counter.total and counter.space().kind == "multilabel":
        good += blank.total  # no labels at all is an answer, too
    else:
        bad.merge(blank)
    if not skip_bad_rows:
        bad.raise_if_any(source, good)
    if not good:
        raise InputError(f"{source.name} holds no rows that can be used.")
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
    form: RowCodec = TEXT_ROWS,
) -> TokenTable:
    """All rows as token ids; memory holds the ids and some forty bytes a row, never the texts."""
    if labels is None and columns.label is not None:
        if not source.is_rereadable:
            raise InputError(f"{source.name} can be read only once, and its labels are not known; put it in a file.")
        labels = survey_rows(
            source, columns, kind=kind, separator=separator, skip_bad_rows=skip_bad_rows, max_cell=max_cell
        )
    fit = LengthPolicy(max_length=max_length, long=long, stride=stride, max_answer=max_answer, max_tokens=max_tokens)
    builder = _TableBuilder(tokenizer.vocab_size, form, fit)
    check = None if form.check_row is check_row else form.check_row
    rows = check_rows(source, columns, labels, max_cell=max_cell, check=check)
    while _encode_chunk(builder, rows, tokenizer, labels, CHUNK_ROWS):
        pass
    if not skip_bad_rows:
        builder.bad.raise_if_any(source, len(builder.rows))
    if not builder.rows:
        raise InputError(f"{source.name} holds no rows that can be used.")
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
    """Tables of at most `chunk` rows one after the other, each with the bad rows that were met on the way."""
    known = columns if labels is not None else replace(columns, label=None)
    rows = check_rows(source, known, labels, max_cell=max_cell)
    fit = LengthPolicy(max_length=max_length, long=long, stride=stride)
    while True:
        builder = _TableBuilder(tokenizer.vocab_size, TEXT_ROWS, fit)
        if not _encode_chunk(builder, rows, tokenizer, labels, chunk):
            return
        yield builder.table(known, labels)


def encode_rows(
    rows: Sequence[TextRow],
    columns: Columns,
    tokenizer: TextEncoder,
    labels: LabelSpace | None = None,
    fit: LengthPolicy | None = None,
    form: RowCodec = TEXT_ROWS,
) -> TokenTable:
    """Rows that were read and checked already, as one table."""
    builder = _TableBuilder(tokenizer.vocab_size, form, fit or LengthPolicy())
    rest: Iterator[TextRow | BadRow] = iter(rows)
    while _encode_chunk(builder, rest, tokenizer, labels, CHUNK_ROWS):
        pass
    return builder.table(columns, labels)


def _encode_chunk(
    builder: _TableBuilder,
    rows: Iterator[TextRow | BadRow],
    tokenizer: TextEncoder,
    labels: LabelSpace | None,
    chunk: int,
) -> bool:
    """Encode the next rows, at most so many; False when there are no more."""
    taken = _take_chunk(rows, chunk)
    good = [row for row in taken if isinstance(row, TextRow)]
    for row in taken:
        if isinstance(row, BadRow):
            builder.bad.add(row)
    if good:
        for row, pieces in zip(good, builder.form.encode(good, tokenizer, builder.fit), strict=True):
            builder.add(row, pieces)
        if labels is not None:
            builder.labels.append(builder.form.encode_labels([row.label for row in good], labels))
    return bool(taken)


def _take_chunk(rows: Iterator[TextRow | BadRow], chunk: int) -> list[TextRow | BadRow]:
    """The next rows, fewer where they are long: memory is bounded by characters, whatever the rows."""
    taken: list[TextRow | BadRow] = []
    size = 0
    for row in islice(rows, chunk):
        taken.append(row)
        size += len(row.text) + len(row.text_b or "") if isinstance(row, TextRow) else 0
        if size > CHUNK_CHARACTERS:
            break
    return taken


def read_rows(source: Source, numbers: Iterable[int]) -> dict[int, Row]:
    """Rows by their numbers, in a second pass that ends with the last of them."""
    wanted = {int(number) for number in numbers}
    found: dict[int, Row] = {}
    if not wanted:
        return found
    last = max(wanted)
    for row in source.rows():
        if isinstance(row, Row) and row.number in wanted:
            found[row.number] = row
        if row.number >= last:
            break
    return found
