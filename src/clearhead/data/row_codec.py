"""How the rows of a task become tokens: checked, cut to what a model can read, and what a task must know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from clearhead.data.column_layout import ONE_OR_TWO_TEXTS, ColumnLayout
from clearhead.data.columns import Columns
from clearhead.data.examples import RowCheck, TextRow, check_row, labels_to_array
from clearhead.data.labels import Kind, LabelSpace
from clearhead.errors import InputError
from clearhead.text.encoding import Encoding, TokenIds, split_into_windows, truncate

if TYPE_CHECKING:
    import numpy as np

    from clearhead.data.table import TokenTable

    Array = np.ndarray[Any, Any]

LONG_TEXT_POLICIES = ("window", "cut", "keep")  # what can be done with a text that is longer than the model
MAX_TOKENS = 5_120  # of a row in all its windows, unless said: ten pages, a second or two for a small model
MAX_TOKENS_TOKEN_LEVEL = 16_384  # the same where each part of a text has an answer of its own: tags, spans
MIN_LONG_CHARACTERS = 65_536  # of a text that is surely longer than a model reads at once
MAX_TOKENS_SETTING = 1_000_000  # that can be said
MAX_UNSPLIT_TOKENS = 4_096  # of a row that is read in one piece, for attention takes their square in memory
MAX_ANSWER_TOKENS = 30  # tokens, as BERT's authors have it


@dataclass(frozen=True, kw_only=True)
class LengthPolicy:
    """What is done with texts that are longer than the model."""

    max_length: int | None = None  # None: nothing is too long
    long: str = "window"
    stride: int = 0  # tokens that neighbouring windows share
    max_answer: int = MAX_ANSWER_TOKENS  # tokens of the longest answer that is looked for
    max_tokens: int | None = None  # of a row in all its windows, the rest is cut off and counted; None: by the task

    def __post_init__(self) -> None:
        if self.long not in LONG_TEXT_POLICIES:
            raise InputError(f"long={self.long!r}: expected one of {', '.join(LONG_TEXT_POLICIES)}.")

    @property
    def token_limit(self) -> int:
        """How many tokens of a row are read at all: what is cut off behind them is counted."""
        if self.max_length is None or self.long == "keep":
            return MAX_UNSPLIT_TOKENS
        return self.max_length if self.long == "cut" else max(self.max_tokens or MAX_TOKENS, self.max_length)

    @property
    def token_level_limit(self) -> int:
        """The same for a task that answers for each part of a text."""
        return max(self.max_length or 0, self.max_tokens or MAX_TOKENS_TOKEN_LEVEL)

    def apply(self, encoding: Encoding) -> list[Encoding]:
        """The encoding itself when it fits or is kept, or windows that hold every token of it."""
        most = self.max_length
        if most is None or len(encoding) <= most or self.long == "keep":
            return [encoding]
        if self.long == "cut":
            return [truncate(encoding, most)]
        if encoding.truncated:  # of a row that is too long for windows, too: counted in the first of them
            first, *others = self.apply(replace(encoding, truncated=0))
            return [replace(first, truncated=first.truncated + encoding.truncated), *others]
        sizes = (encoding.sides.count(0), encoding.sides.count(1))
        for side in (1, 0) if sizes[1] else (0,):  # of a pair, the second text slides if the first leaves it room
            if len(encoding) - sizes[side] + self.stride < most:
                return split_into_windows(encoding, max_length=most, stride=self.stride, side=side)
        return [truncate(encoding, most)]  # two long texts: cut, and counted


class TextEncoder(Protocol):
    """What a table needs of a tokenizer."""

    @property
    def vocab_size(self) -> int: ...

    def encode_batch(self, items: Iterable[Any], *, max_length: int | None = None) -> Sequence[Encoding]: ...


@runtime_checkable
class IdEncoder(TextEncoder, Protocol):
    """An Encoder that also returns ids without the rest, in half the time; an Encoder need not be one."""

    def encode_ids(self, items: Iterable[Any], *, max_length: int | None = None) -> Sequence[TokenIds]: ...


@runtime_checkable
class LimitedEncoder(TextEncoder, Protocol):
    """An Encoder that states how many tokens its model reads; an Encoder need not be one."""

    @property
    def max_length(self) -> int | None: ...


class EncodedRow(NamedTuple):
    """A row as tokens: one window, or several when it is longer than the model."""

    windows: Sequence[Encoding | TokenIds]
    annotations: Any = None  # what the task must know of them


def encode_text_rows(rows: Sequence[TextRow], tokenizer: TextEncoder, fit: LengthPolicy) -> Iterable[EncodedRow]:
    """One text or two; where they fit, and most do, their ids are enough."""
    items = [row.text if row.text_b is None else (row.text, row.text_b) for row in rows]
    return map(EncodedRow, encode_items(items, tokenizer, fit))


def encode_items(
    items: list[Any], tokenizer: TextEncoder, fit: LengthPolicy
) -> Sequence[Sequence[Encoding | TokenIds]]:
    """What each item becomes; where a text fits, and most do, its ids are enough."""
    limit = fit.token_limit
    if not isinstance(tokenizer, IdEncoder):
        return [fit.apply(encoding) for encoding in tokenizer.encode_batch(items, max_length=limit)]
    most = None if fit.long != "window" else fit.max_length
    sure = [most is not None and _count_characters(item) > max(MIN_LONG_CHARACTERS, 32 * most) for item in items]
    fitting = [item for item, long in zip(items, sure, strict=True) if not long]
    short = iter(tokenizer.encode_ids(fitting, max_length=limit))
    found: list[Sequence[Encoding | TokenIds]] = [[] if long else [next(short)] for long in sure]
    long = [place for place, one in enumerate(found) if not one or (most is not None and len(one[0]) > most)]
    whole = tokenizer.encode_batch([items[place] for place in long], max_length=limit)
    for place, encoding in zip(long, whole, strict=True):
        found[place] = fit.apply(encoding)
    return found


def _count_characters(item: Any) -> int:
    return sum(map(len, item)) if isinstance(item, tuple) else len(item)


def first_of_two_texts(row: TextRow) -> str | None:
    """Of two texts the first: rows that share it are not independent of each other."""
    return None if row.text_b is None else row.text


def _concatenate(parts: Sequence[Any]) -> Any:
    import numpy as np

    return np.concatenate(parts)


class LabelCollector(Protocol):
    """Counts labels as they come, and knows in the end what they are."""

    total: int

    def add(self, value: Any) -> None: ...

    def space(self) -> LabelSpace: ...


@dataclass(frozen=True, kw_only=True)
class PlainView:
    """How rows with answers of their own kind are shown to an inspection of texts and labels."""

    make_label: Callable[[TextRow, LabelSpace | None], Any]  # the label of a cell that stands for the row's answer
    rename_columns: Callable[[Columns], Columns] = lambda columns: columns  # what the columns are called
    needs_label_space: bool = False  # the label needs the space, which no single row can tell
    has_shared_texts: bool = False  # rows share passages, so that similar rows are no finding
    ignored_findings: tuple[str, ...] = ()  # findings that do not apply, by a part of their sentence


def describe_labels(space: LabelSpace) -> str:
    """What there is to learn, in a few words."""
    if space.kind == "number":
        return "numbers"
    names = ", ".join(space.names[:8]) + (", ..." if len(space) > 8 else "")
    several = " that a row can have several of" if space.kind == "multilabel" else ""
    return f"{len(space)} labels{several}: {names}"


def row_from_texts(texts: Sequence[str], reference: str, second: bool | None) -> dict[str, Any]:
    """A row of one text, or of two where a model reads two; `second`: what it was trained on, None: nobody knows."""
    least, most = {True: (2, 2), False: (1, 1), None: (1, 2)}[second]
    if len(texts) < least:
        raise InputError(f"{reference} reads two texts: give the second one after the first, got {len(texts)}.")
    if len(texts) > most:
        raise InputError(f"{reference} reads {'one text' if most == 1 else 'two texts at most'}, got {len(texts)}.")
    return dict(zip(("text", "text_b"), texts, strict=False))


@dataclass(frozen=True, kw_only=True)
class RowCodec:
    """What a task makes of a row, from its cells to its tokens; the defaults are those of one text or two."""

    # which rows and columns
    label_kinds: tuple[Kind, ...] = ("classes", "multilabel", "number")  # of labels that can be learned from
    layout: ColumnLayout = ONE_OR_TWO_TEXTS
    label_counter: Callable[[], LabelCollector] | None = None  # None: labels of one cell a row
    describe_labels: Callable[[LabelSpace], str] = describe_labels  # what there is to learn, for people
    row_from_texts: Callable[[Sequence[str], str, bool | None], dict[str, Any]] = (
        row_from_texts  # a row out of plain texts
    )
    plain_view: PlainView | None = None  # None: rows have texts and labels of a cell
    # from cells to tokens
    check_row: RowCheck = check_row
    encode: Callable[[Sequence[TextRow], TextEncoder, LengthPolicy], Iterable[EncodedRow]] = encode_text_rows
    encode_labels: Callable[[Sequence[Any], LabelSpace], Any] = labels_to_array
    join_labels: Callable[[Sequence[Any]], Any] = _concatenate  # of labels
    # of all rows, with their labels
    annotate: Callable[[Sequence[Any], Sequence[Any] | None, LengthPolicy], Any] | None = None
    window_defaults: tuple[int | None, int] = (None, 0)  # at most so many tokens at once, and shared between windows
    is_reversible: bool = False  # two texts can be read in both orders
    passes_per_row: int = 1  # how often a row is read: twice where two texts are read in both orders
    # what training must know of the rows
    shared_text: Callable[[TextRow], str | None] = first_of_two_texts  # what rows share that must not be split
    stratify: Callable[[Any, LabelSpace], tuple[Any, str]] | None = None  # labels to split by, and their kind
    row_weights: Callable[[Any], Array | None] = lambda data: None  # noqa: ARG005  how much each row counts in a step
    # places of rows of which something cannot be learned
    find_unlearnable: Callable[[TokenTable], tuple[str, Array]] | None = None


TEXT_ROWS = RowCodec()
