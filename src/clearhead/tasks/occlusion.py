"""What may be left out of a row, and what is watched meanwhile, to find the words that an answer hangs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clearhead.data.examples import TextRow
from clearhead.text.words import find_chunk_spans

if TYPE_CHECKING:
    import numpy as np

    from clearhead.tasks.examples import Pick
    from clearhead.tasks.task import Answers

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Some words in a row, in the first or the second text."""

    start: int
    end: int
    second: bool = False


Read = Callable[[Any], "Answers"]  # logits -> answers
Left = Sequence[Piece | None]  # what each row was read without; None: it was whole


@dataclass(frozen=True, kw_only=True)
class Watching:
    """How a row is taken apart."""

    runs: tuple[tuple[Piece, ...], ...]  # words that may be left out; neighbours of one run also together
    value: Callable[[Any, Left], Array]  # logits -> the one number of each row that is watched
    without: Callable[[TextRow, Piece], TextRow | None]  # None: nothing would be left to ask
    name: str | None = None  # what the number speaks for; None: the answer


def words_in(text: str, begin: int = 0, *, second: bool = False) -> tuple[Piece, ...]:
    """The words of a text that stands at `begin`."""
    return tuple(Piece(start=begin + a, end=begin + b, second=second) for a, b in find_chunk_spans(text))


def cut(text: str, start: int, end: int) -> str:
    """A text with one piece and the space beside it left out."""
    before, after = text[:start], text[end:]
    if not before or before[-1].isspace():
        after = after.lstrip()
    return (before + after).strip()


def without_words(row: TextRow, piece: Piece) -> TextRow | None:
    """One text or two with a piece of either left out."""
    left = cut((row.text_b or "") if piece.second else row.text, piece.start, piece.end)
    return None if not left else replace(row, text_b=left) if piece.second else replace(row, text=left)


def watch_text(pick: Pick, row: TextRow, read: Read) -> Watching | None:
    """One text or two: the probability of a label, or the number that is the answer."""
    if pick.watched is None and pick.error is None:
        return None

    def value(logits: Any, left: Left) -> Array:
        import numpy as np

        answers = read(logits)
        if answers.probs is None or pick.watched is None:
            return np.asarray(answers.labels)
        probs = answers.probs[:, pick.watched]
        return np.asarray(1 - probs if pick.against else probs)

    runs = (words_in(row.text), words_in(row.text_b or "", second=True))
    return Watching(runs=runs, value=value, without=without_words)


def grouped(runs: Sequence[Sequence[Piece]], most: int) -> list[Piece]:
    """The words of all runs, or groups of neighbours where there are more than `most`."""
    size = max(-(-sum(map(len, runs)) // max(most, 1)), 1)
    while size > 1 and sum(-(-len(run) // size) for run in runs) > most > 1:
        size += 1  # several runs can need some groups more
    return [group for run in runs for group in _groups(run, size)]


def _groups(run: Sequence[Piece], size: int) -> Iterator[Piece]:
    for place in range(0, len(run), size):
        group = run[place : place + size]
        yield replace(group[0], end=group[-1].end)
