"""Token ids of a whole data set in a few flat arrays, made in one pass over its rows."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from clearhead.data.columns import Columns
from clearhead.data.examples import MOST_CELL, BadRows, TextRow, checked_rows, label_array, text_hash
from clearhead.data.labels import Kind, LabelCounter, LabelSpace, is_missing
from clearhead.data.source import NO_LABEL, BadRow, Row, Source, excerpt
from clearhead.errors import InputError
from clearhead.text.encoding import Encoding, Ids, truncate, windows

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

CHUNK = 1000  # rows that are encoded together
MOST_CHARACTERS = 2_000_000  # of them
PARTS = ("train", "dev", "test")  # what the numbers in `splits` mean
LONG = ("window", "cut", "keep")  # what can be done with a text that is longer than the model


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What is done with texts that are longer than the model."""

    max_length: int | None = None  # None: nothing is too long
    long: str = "window"
    stride: int = 0  # tokens that neighbouring windows share

    def __post_init__(self) -> None:
        if self.long not in LONG:
            raise InputError(f"long={self.long!r}: expected one of {', '.join(LONG)}.")

    def pieces(self, encoding: Encoding) -> list[Encoding]:
        """The encoding itself when it fits or is kept, or windows that hold every token of it."""
        most = self.max_length
        if most is None or len(encoding) <= most or self.long != "window":
            return [encoding]
        sizes = (encoding.sides.count(0), encoding.sides.count(1))
        for side in (1, 0) if sizes[1] else (0,):  # of a pair, the second text slides if the first leaves it room
            if len(encoding) - sizes[side] + self.stride < most:
                return windows(encoding, max_length=most, stride=self.stride, side=side)
        return [truncate(encoding, most)]  # two long texts: cut, and counted


class Encoder(Protocol):
    """What a table needs of a tokenizer."""

    @property
    def vocab_size(self) -> int: ...

    def encode_batch(self, items: Iterable[Any], *, max_length: int | None = None) -> Sequence[Encoding]: ...


@dataclass(frozen=True, kw_only=True)
class TokenTable:
    """Rows as token ids: a row has one piece, or several windows when it is longer than the model."""

    ids: Array  # (tokens,) of all pieces one after the other; uint16 if the vocabulary allows
    starts: Array  # (pieces + 1,) where each piece begins
    turns: Array  # (pieces,) how many of a piece's tokens stand before the second segment
    owners: Array  # (pieces,) which row a piece is from, counted from 0
    labels: Array | None  # (rows,) or (rows, names), as in `Examples`
    space: LabelSpace | None
    rows: Array  # (rows,) their numbers in the source
    hashes: Array  # (rows,) 64 bits of each text
    truncated: Array  # (rows,) tokens that were cut off
    groups: Array | None = None  # (rows,) 64 bits of the id column
    firsts: Array | None = None  # (rows,) 64 bits of the first of two texts
    splits: Array | None = None  # (rows,) places in PARTS
    skipped: dict[str, int] = field(default_factory=dict)
    bad: tuple[BadRow, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> Array:
        """(pieces,) tokens of each piece."""
        return self.starts[1:] - self.starts[:-1]

    def piece(self, place: int) -> Array:
        """The ids of one piece."""
        return self.ids[self.starts[place] : self.starts[place + 1]]

    def segments(self, place: int) -> Array:
        """The segments of one piece: 0, then 1 from the second text on."""
        import numpy as np

        length = int(self.starts[place + 1] - self.starts[place])
        found: Array = (np.arange(length) >= self.turns[place]).astype(np.int64)
        return found


class _Builder:
    """Columns that grow by appending, without Python objects for what is in them."""

    def __init__(self, vocab: int) -> None:
        self.ids = array("H" if vocab <= 1 << 16 else "i")
        self.starts, self.rows, self.hashes, self.groups = array("q", [0]), array("q"), array("Q"), array("Q")
        self.firsts = array("Q")
        self.turns, self.owners, self.truncated, self.splits = array("i"), array("i"), array("i"), array("b")
        self.labels: list[Array] = []
        self.bad = BadRows()

    def add(self, row: TextRow, pieces: Sequence[Encoding | Ids]) -> None:
        owner = len(self.rows)
        for piece in pieces:
            self.ids.extend(piece.ids)
            self.starts.append(len(self.ids))
            self.turns.append(piece.segments.index(1) if 1 in piece.segments else len(piece.ids))
            self.owners.append(owner)
        self.rows.append(row.number)
        self.hashes.append(text_hash(row.text, row.text_b))
        self.truncated.append(sum(piece.truncated for piece in pieces))
        if row.text_b is not None:
            self.firsts.append(text_hash(row.text))
        self.groups.append(text_hash(row.id) if row.id is not None else self.hashes[-1])
        self.splits.append(PARTS.index(row.split) if row.split is not None else -1)

    def table(self, columns: Columns, space: LabelSpace | None) -> TokenTable:
        import numpy as np

        def view(values: array[Any]) -> Array:  # no copy
            return np.frombuffer(values, values.typecode) if len(values) else np.zeros(0, values.typecode)

        return TokenTable(
            ids=view(self.ids), starts=view(self.starts), turns=view(self.turns), owners=view(self.owners),
            labels=np.concatenate(self.labels) if self.labels else None, space=space, rows=view(self.rows),
            hashes=view(self.hashes), truncated=view(self.truncated),
            groups=view(self.groups) if columns.id is not None else None,
            firsts=view(self.firsts) if columns.text_b is not None else None,
            splits=view(self.splits) if columns.split is not None else None,
            skipped=dict(self.bad.counts), bad=tuple(self.bad.first),
        )  # fmt: skip


def survey(
    source: Source,
    columns: Columns,
    labels: LabelSpace | None = None,
    *,
    kind: Kind | None = None,
    separator: str | None = None,
    skip_bad_rows: bool = False,
    max_cell: int = MOST_CELL,
) -> LabelSpace | None:
    """A first pass that finds the labels, and refuses bad rows before anything costly is done with the good ones."""
    bad, blank = BadRows(), BadRows()
    good = 0
    if labels is None and kind == "number":
        labels = LabelSpace(kind="number")
    counter = LabelCounter(kind=kind, separator=separator)
    for row in checked_rows(source, columns, labels, max_cell=max_cell):
        if isinstance(row, BadRow):
            bad.add(row)
        elif labels is None and columns.label is not None and is_missing(row.label):
            blank.add(BadRow(row.number, "the label is missing", excerpt(row.text), row.line, NO_LABEL))
        else:
            good += 1
            if labels is None and columns.label is not None:
                counter.add(row.label)
    if counter.total and counter.space().kind == "multilabel":
        good += blank.total  # no labels at all is an answer, too
    else:
        bad.merge(blank)
    if not skip_bad_rows:
        bad.refuse(source, good)
    if not good:
        raise InputError(f"{source.name} holds no rows that can be used.")
    return None if columns.label is None else labels or counter.space()


def encode_table(
    source: Source,
    columns: Columns,
    tokenizer: Encoder,
    labels: LabelSpace | None = None,
    *,
    kind: Kind | None = None,
    separator: str | None = None,
    max_length: int | None = None,
    long: str = "window",
    stride: int = 0,
    skip_bad_rows: bool = False,
    max_cell: int = MOST_CELL,
) -> TokenTable:
    """All rows as token ids; memory holds the ids and some forty bytes a row, never the texts."""
    if labels is None and columns.label is not None:
        if not source.again:
            raise InputError(f"{source.name} can be read only once, and its labels are not known; put it in a file.")
        labels = survey(
            source, columns, kind=kind, separator=separator, skip_bad_rows=skip_bad_rows, max_cell=max_cell
        )  # fmt: skip
    builder = _Builder(tokenizer.vocab_size)
    rows = checked_rows(source, columns, labels, max_cell=max_cell)
    fit = Fit(max_length=max_length, long=long, stride=stride)
    while _fill(builder, rows, tokenizer, labels, fit, CHUNK):
        pass
    if not skip_bad_rows:
        builder.bad.refuse(source, len(builder.rows))
    if not builder.rows:
        raise InputError(f"{source.name} holds no rows that can be used.")
    return builder.table(columns, labels)


def encode_stream(
    source: Source,
    columns: Columns,
    tokenizer: Encoder,
    labels: LabelSpace | None = None,
    *,
    max_length: int | None = None,
    long: str = "window",
    stride: int = 0,
    chunk: int = CHUNK,
    max_cell: int = MOST_CELL,
) -> Iterator[TokenTable]:
    """Tables of at most `chunk` rows one after the other, each with the bad rows that were met on the way."""
    known = columns if labels is not None else replace(columns, label=None)
    rows = checked_rows(source, known, labels, max_cell=max_cell)
    fit = Fit(max_length=max_length, long=long, stride=stride)
    while True:
        builder = _Builder(tokenizer.vocab_size)
        if not _fill(builder, rows, tokenizer, labels, fit, chunk):
            return
        yield builder.table(known, labels)


def encode_rows(
    rows: Sequence[TextRow],
    columns: Columns,
    tokenizer: Encoder,
    labels: LabelSpace | None = None,
    fit: Fit | None = None,
) -> TokenTable:
    """Rows that were read and checked already, as one table."""
    builder = _Builder(tokenizer.vocab_size)
    rest: Iterator[TextRow | BadRow] = iter(rows)
    while _fill(builder, rest, tokenizer, labels, fit or Fit(), CHUNK):
        pass
    return builder.table(columns, labels)


def _fill(
    builder: _Builder,
    rows: Iterator[TextRow | BadRow],
    tokenizer: Encoder,
    labels: LabelSpace | None,
    fit: Fit,
    chunk: int,
) -> bool:
    """Encode the next rows, at most so many; False when there are no more."""
    taken = _taken(rows, chunk)
    good = [row for row in taken if isinstance(row, TextRow)]
    for row in taken:
        if isinstance(row, BadRow):
            builder.bad.add(row)
    if good:
        items = [row.text if row.text_b is None else (row.text, row.text_b) for row in good]
        for row, pieces in zip(good, _pieces(items, tokenizer, fit), strict=True):
            builder.add(row, pieces)
        if labels is not None:
            builder.labels.append(label_array([row.label for row in good], labels))
    return bool(taken)


def _taken(rows: Iterator[TextRow | BadRow], chunk: int) -> list[TextRow | BadRow]:
    """The next rows, fewer where they are long: memory is bounded by characters, whatever the rows."""
    taken: list[TextRow | BadRow] = []
    size = 0
    for row in islice(rows, chunk):
        taken.append(row)
        size += len(row.text) + len(row.text_b or "") if isinstance(row, TextRow) else 0
        if size > MOST_CHARACTERS:
            break
    return taken


def _pieces(items: list[Any], tokenizer: Encoder, fit: Fit) -> Sequence[Sequence[Encoding | Ids]]:
    """What each item becomes; where a text fits, and most do, its ids are enough."""
    cut = fit.max_length if fit.long == "cut" else None
    encode_ids = getattr(tokenizer, "encode_ids", None)  # half the time; a tokenizer need not have it
    if encode_ids is None:
        return [fit.pieces(encoding) for encoding in tokenizer.encode_batch(items, max_length=cut)]
    found: list[Sequence[Encoding | Ids]] = [[ids] for ids in encode_ids(items)]
    most = None if fit.long == "keep" else fit.max_length
    long = [place for place, [ids] in enumerate(found) if most is not None and len(ids) > most]
    whole = tokenizer.encode_batch([items[place] for place in long], max_length=cut)
    for place, encoding in zip(long, whole, strict=True):
        found[place] = fit.pieces(encoding)
    return found


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
