"""How the rows of a task become tokens: checked, cut to what a model can read, and what a task must know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from clearhead.data.examples import Check, TextRow, checked_row, label_array
from clearhead.data.labels import LabelSpace
from clearhead.errors import InputError
from clearhead.text.encoding import Encoding, Ids, truncate, windows

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

LONG = ("window", "cut", "keep")  # what can be done with a text that is longer than the model
MOST_TOKENS = 5_120  # of a row in all its windows, unless said: ten pages, a second or two for a small model
MOST_PLACES = 16_384  # the same where each part of a text has an answer of its own: tags, spans
MANY_CHARACTERS = 65_536  # of a text that is surely longer than a model reads at once
MOST_ROW = 1_000_000  # that can be said
MOST_AT_ONCE = 4_096  # of a row that is read in one piece, for attention takes their square in memory
LONGEST_ANSWER = 30  # tokens, as BERT's authors have it


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What is done with texts that are longer than the model."""

    max_length: int | None = None  # None: nothing is too long
    long: str = "window"
    stride: int = 0  # tokens that neighbouring windows share
    max_answer: int = LONGEST_ANSWER  # tokens of the longest answer that is looked for
    max_tokens: int | None = None  # of a row in all its windows, the rest is cut off and counted; None: by the task

    def __post_init__(self) -> None:
        if self.long not in LONG:
            raise InputError(f"long={self.long!r}: expected one of {', '.join(LONG)}.")

    @property
    def limit(self) -> int:
        """How many tokens of a row are read at all: what is cut off behind them is counted."""
        if self.max_length is None or self.long == "keep":
            return MOST_AT_ONCE
        return self.max_length if self.long == "cut" else max(self.max_tokens or MOST_TOKENS, self.max_length)

    @property
    def most_places(self) -> int:
        """The same for a task that answers for each part of a text."""
        return max(self.max_length or 0, self.max_tokens or MOST_PLACES)

    def pieces(self, encoding: Encoding) -> list[Encoding]:
        """The encoding itself when it fits or is kept, or windows that hold every token of it."""
        most = self.max_length
        if most is None or len(encoding) <= most or self.long == "keep":
            return [encoding]
        if self.long == "cut":
            return [truncate(encoding, most)]
        if encoding.truncated:  # of a row that is too long for windows, too: counted in the first of them
            first, *others = self.pieces(replace(encoding, truncated=0))
            return [replace(first, truncated=first.truncated + encoding.truncated), *others]
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


@runtime_checkable
class IdEncoder(Encoder, Protocol):
    """An Encoder that also returns ids without the rest, in half the time; an Encoder need not be one."""

    def encode_ids(self, items: Iterable[Any], *, max_length: int | None = None) -> Sequence[Ids]: ...


@runtime_checkable
class LimitedEncoder(Encoder, Protocol):
    """An Encoder that states how many tokens its model reads; an Encoder need not be one."""

    @property
    def max_length(self) -> int | None: ...


class Pieces(NamedTuple):
    """A row as tokens: one window, or several when it is longer than the model."""

    windows: Sequence[Encoding | Ids]
    marks: Any = None  # what the task must know of them


def text_pieces(rows: Sequence[TextRow], tokenizer: Encoder, fit: Fit) -> Iterable[Pieces]:
    """One text or two; where they fit, and most do, their ids are enough."""
    items = [row.text if row.text_b is None else (row.text, row.text_b) for row in rows]
    return map(Pieces, item_pieces(items, tokenizer, fit))


def item_pieces(items: list[Any], tokenizer: Encoder, fit: Fit) -> Sequence[Sequence[Encoding | Ids]]:
    """What each item becomes; where a text fits, and most do, its ids are enough."""
    limit = fit.limit
    if not isinstance(tokenizer, IdEncoder):
        return [fit.pieces(encoding) for encoding in tokenizer.encode_batch(items, max_length=limit)]
    most = None if fit.long != "window" else fit.max_length
    sure = [most is not None and _characters(item) > max(MANY_CHARACTERS, 32 * most) for item in items]
    fitting = [item for item, long in zip(items, sure, strict=True) if not long]
    short = iter(tokenizer.encode_ids(fitting, max_length=limit))
    found: list[Sequence[Encoding | Ids]] = [[] if long else [next(short)] for long in sure]
    long = [place for place, one in enumerate(found) if not one or (most is not None and len(one[0]) > most)]
    whole = tokenizer.encode_batch([items[place] for place in long], max_length=limit)
    for place, encoding in zip(long, whole, strict=True):
        found[place] = fit.pieces(encoding)
    return found


def _characters(item: Any) -> int:
    return sum(map(len, item)) if isinstance(item, tuple) else len(item)


def first_text(row: TextRow) -> str | None:
    """Of two texts the first: rows that share it are not independent of each other."""
    return None if row.text_b is None else row.text


def _concatenated(parts: Sequence[Any]) -> Any:
    import numpy as np

    return np.concatenate(parts)


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a task makes of a row, from its cells to its tokens; the defaults are those of one text or two."""

    check: Check = checked_row
    pieces: Callable[[Sequence[TextRow], Encoder, Fit], Iterable[Pieces]] = text_pieces
    labels: Callable[[Sequence[Any], LabelSpace], Any] = label_array
    join: Callable[[Sequence[Any]], Any] = _concatenated  # of labels
    marks: Callable[[Sequence[Any], Sequence[Any] | None, Fit], Any] | None = None  # of all rows, with their labels
    together: Callable[[TextRow], str | None] = first_text  # what rows share that must not be split


FORM = Form()
