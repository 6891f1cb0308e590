"""How the rows of a task are checked, tokenized, split into windows and annotated."""

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

LONG_TEXT_POLICIES = ("window", "cut", "keep")  # for texts that exceed max_length
MAX_TOKENS = 5_120  # of a row in all its windows by default: ten pages, a second or two for a small model
MAX_TOKENS_TOKEN_LEVEL = 16_384  # the same for tasks that predict at token level: tags, spans
MIN_LONG_CHARACTERS = 65_536  # a longer text certainly exceeds max_length
MAX_TOKENS_SETTING = 1_000_000  # the largest max_tokens that can be set
MAX_UNSPLIT_TOKENS = 4_096  # of a row that is not split: attention needs quadratic memory
MAX_ANSWER_TOKENS = 30  # as in BERT's SQuAD code


@dataclass(frozen=True, kw_only=True)
class LengthPolicy:
    """What happens to texts that exceed the maximum length of the model."""

    max_length: int | None = None  # None: no limit
    long: str = "window"
    stride: int = 0  # tokens that adjacent windows share
    max_answer: int = MAX_ANSWER_TOKENS  # maximum number of tokens of an extracted answer
    max_tokens: int | None = None  # of a row in all its windows; further tokens are truncated; None: the task decides

    def __post_init__(self) -> None:
        if self.long not in LONG_TEXT_POLICIES:
            raise InputError(f"long={self.long!r}: expected one of {', '.join(LONG_TEXT_POLICIES)}.")

    @property
    def token_limit(self) -> int:
        """Return how many tokens of a row are read; further tokens are counted as truncated."""
        if self.max_length is None or self.long == "keep":
            return MAX_UNSPLIT_TOKENS
        return self.max_length if self.long == "cut" else max(self.max_tokens or MAX_TOKENS, self.max_length)

    @property
    def token_level_limit(self) -> int:
        """Return the same limit for tasks that predict at token level."""
        return max(self.max_length or 0, self.max_tokens or MAX_TOKENS_TOKEN_LEVEL)

    def apply(self, encoding: Encoding) -> list[Encoding]:
        """Return the encoding as it is, truncated, or split into windows."""
        max_length = self.max_length
        if max_length is None or len(encoding) <= max_length or self.long == "keep":
            return [encoding]
        if self.long == "cut":
            return [truncate(encoding, max_length)]
        if encoding.truncated:  # longer than token_limit: truncated tokens are counted in the first window
            first_window, *other_windows = self.apply(replace(encoding, truncated=0))
            return [replace(first_window, truncated=first_window.truncated + encoding.truncated), *other_windows]
        side_lengths = (encoding.sides.count(0), encoding.sides.count(1))
        for side in (
            (1, 0) if side_lengths[1] else (0,)
        ):  # of a pair, the second text is windowed if the first one leaves room
            if len(encoding) - side_lengths[side] + self.stride < max_length:
                return split_into_windows(encoding, max_length=max_length, stride=self.stride, side=side)
        return [truncate(encoding, max_length)]  # two long texts are truncated


class TextEncoder(Protocol):
    """The part of a tokenizer that a `TokenTable` needs."""

    @property
    def vocab_size(self) -> int: ...

    def encode_batch(self, items: Iterable[Any], *, max_length: int | None = None) -> Sequence[Encoding]: ...


@runtime_checkable
class IdEncoder(TextEncoder, Protocol):
    """A `TextEncoder` that can also return token ids only, which takes half the time."""

    def encode_ids(self, items: Iterable[Any], *, max_length: int | None = None) -> Sequence[TokenIds]: ...


@runtime_checkable
class LimitedEncoder(TextEncoder, Protocol):
    """A `TextEncoder` that knows the maximum length of its model."""

    @property
    def max_length(self) -> int | None: ...


class EncodedRow(NamedTuple):
    """A tokenized row: one window, or several if it exceeds the maximum length."""

    windows: Sequence[Encoding | TokenIds]
    annotations: Any = None  # task-specific facts about the tokens


def encode_text_rows(rows: Sequence[TextRow], tokenizer: TextEncoder, policy: LengthPolicy) -> Iterable[EncodedRow]:
    """Tokenize rows of one or two texts."""
    items = [row.text if row.text_b is None else (row.text, row.text_b) for row in rows]
    return map(EncodedRow, encode_items(items, tokenizer, policy))


def encode_items(
    items: list[Any], tokenizer: TextEncoder, policy: LengthPolicy
) -> Sequence[Sequence[Encoding | TokenIds]]:
    """Tokenize texts or pairs of texts into windows; only long ones need more than their token ids."""
    limit = policy.token_limit
    if not isinstance(tokenizer, IdEncoder):
        return [policy.apply(encoding) for encoding in tokenizer.encode_batch(items, max_length=limit)]
    max_length = None if policy.long != "window" else policy.max_length
    certainly_long = [
        max_length is not None and _count_characters(item) > max(MIN_LONG_CHARACTERS, 32 * max_length) for item in items
    ]
    likely_short = [item for item, is_long in zip(items, certainly_long, strict=True) if not is_long]
    encoded_ids = iter(tokenizer.encode_ids(likely_short, max_length=limit))
    windows_per_item: list[Sequence[Encoding | TokenIds]] = [
        [] if is_long else [next(encoded_ids)] for is_long in certainly_long
    ]
    long_indices = [
        index
        for index, windows in enumerate(windows_per_item)
        if not windows or (max_length is not None and len(windows[0]) > max_length)
    ]
    encodings = tokenizer.encode_batch([items[index] for index in long_indices], max_length=limit)
    for index, encoding in zip(long_indices, encodings, strict=True):
        windows_per_item[index] = policy.apply(encoding)
    return windows_per_item


def _count_characters(item: Any) -> int:
    return sum(map(len, item)) if isinstance(item, tuple) else len(item)


def first_of_two_texts(row: TextRow) -> str | None:
    """Return the first text of a pair; rows that share it are not independent."""
    return None if row.text_b is None else row.text


def _concatenate(arrays: Sequence[Any]) -> Any:
    import numpy as np

    return np.concatenate(arrays)


class LabelCollector(Protocol):
    """Counts labels row by row and infers their label space."""

    total: int

    def add(self, value: Any) -> None: ...

    def space(self) -> LabelSpace: ...


@dataclass(frozen=True, kw_only=True)
class PlainView:
    """How rows of a task with structured labels are presented to an inspection of texts and labels."""

    make_label: Callable[[TextRow, LabelSpace | None], Any]  # a plain label that represents the row's answer
    rename_columns: Callable[[Columns], Columns] = lambda columns: columns
    needs_label_space: bool = False  # `make_label` needs the label space, which depends on all rows
    has_shared_texts: bool = False  # rows share passages, so near duplicates are expected
    ignored_findings: tuple[str, ...] = ()  # parts of sentences of findings that do not apply


def describe_labels(space: LabelSpace) -> str:
    """Summarize the labels for a message."""
    if space.kind == "number":
        return "numeric labels"
    names = ", ".join(space.names[:8]) + (", ..." if len(space) > 8 else "")
    suffix = " that a row can have several of" if space.kind == "multilabel" else ""
    return f"{len(space)} labels{suffix}: {names}"


def row_from_texts(texts: Sequence[str], reference: str, reads_pairs: bool | None) -> dict[str, Any]:
    """Build a row from one or two texts; `reads_pairs`: whether the model was trained on pairs (None: unknown)."""
    min_texts, max_texts = {True: (2, 2), False: (1, 1), None: (1, 2)}[reads_pairs]
    if len(texts) < min_texts:
        raise InputError(f"{reference} expects two texts, got {len(texts)}: pass the second text after the first.")
    if len(texts) > max_texts:
        raise InputError(
            f"{reference} expects {'one text' if max_texts == 1 else 'at most two texts'}, got {len(texts)}."
        )
    return dict(zip(("text", "text_b"), texts, strict=False))


@dataclass(frozen=True, kw_only=True)
class RowCodec:
    """How a task reads a row, from cells to tokens; the defaults read one or two texts."""

    # columns and labels
    label_kinds: tuple[Kind, ...] = ("classes", "multilabel", "number")  # that the task can learn
    layout: ColumnLayout = ONE_OR_TWO_TEXTS
    label_counter: Callable[[], LabelCollector] | None = None  # None: `LabelCounter`
    describe_labels: Callable[[LabelSpace], str] = describe_labels
    row_from_texts: Callable[[Sequence[str], str, bool | None], dict[str, Any]] = row_from_texts
    plain_view: PlainView | None = None  # None: rows are texts with plain labels
    # from cells to tokens
    check_row: RowCheck = check_row
    encode: Callable[[Sequence[TextRow], TextEncoder, LengthPolicy], Iterable[EncodedRow]] = encode_text_rows
    encode_labels: Callable[[Sequence[Any], LabelSpace], Any] = labels_to_array
    join_labels: Callable[[Sequence[Any]], Any] = _concatenate
    # combines the annotations of all rows, given their labels
    annotate: Callable[[Sequence[Any], Sequence[Any] | None, LengthPolicy], Any] | None = None
    window_defaults: tuple[int | None, int] = (None, 0)  # max_length and stride
    is_reversible: bool = False  # pairs can be read in both orders
    passes_per_row: int = 1  # 2 if pairs are read in both orders
    # training
    shared_text: Callable[[TextRow], str | None] = first_of_two_texts  # rows with the same one stay in the same split
    stratify: Callable[[Any, LabelSpace], tuple[Any, str]] | None = (
        None  # labels for a stratified split, and their kind
    )
    row_weights: Callable[[Any], Array | None] = lambda data: None  # noqa: ARG005  weight of each row in the loss
    # a description and the indices of rows whose labels the model cannot represent
    find_unlearnable: Callable[[TokenTable], tuple[str, Array]] | None = None


TEXT_ROWS = RowCodec()
