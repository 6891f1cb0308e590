"""Which words mattered: each is left out in turn and the answer read again, by whatever it is that answers rows."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.errors import InputError
from clearhead.scoring import Scorer
from clearhead.tasks.shown import Word

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MOST_PIECES = 40  # of a text that are left out one by one; longer texts lose several words at once
LEAST_PIECES = 8  # with fewer pieces of a long text, nothing is learned about words
MOST_CHARACTERS = 20_000  # of a text that is taken apart
EAGER = 1 / 3  # of the time that is left may go to the next row
TOGETHER = 0.5  # of the time of one text alone that each of many takes
SECONDS = 4.0  # for all rows together
# scripts without spaces are taken apart by characters: Thai and Lao, Burmese, Khmer, kana, Chinese
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # noqa: E501
_WORD = re.compile(rf"[{_UNSPACED}][\u0300-\u036f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]*|[^\s{_UNSPACED}]+")

Watch = Callable[["Array"], "Array"]  # logits -> the one number of each row that is watched


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Some words in a row, in the first or the second text."""

    start: int
    end: int
    second: bool = False


@dataclass(frozen=True, kw_only=True)
class Occluded:
    """A row taken apart."""

    whole: float  # what is watched, with nothing left out
    words: tuple[Word, ...]
    scored: int  # texts that were read for it


def pieces(row: TextRow, most: int = MOST_PIECES) -> list[Piece]:
    """A row's words, or groups of neighbours where there are more than `most`."""
    found = [Piece(start=m.start(), end=m.end()) for m in _WORD.finditer(row.text)]
    ahead = [Piece(start=m.start(), end=m.end(), second=True) for m in _WORD.finditer(row.text_b or "")]
    size = -(-(len(found) + len(ahead)) // max(most, 1))
    while size > 1 and -(-len(found) // size) + -(-len(ahead) // size) > most > 1:
        size += 1  # two texts can need one group more
    return [*_grouped(found, size), *_grouped(ahead, size)]


def _grouped(found: Sequence[Piece], size: int) -> Iterator[Piece]:
    for place in range(0, len(found), max(size, 1)):
        group = found[place : place + size]
        yield replace(group[0], end=group[-1].end)


def without(row: TextRow, piece: Piece) -> TextRow:
    """The row with one piece and the space beside it left out."""
    text = (row.text_b or "") if piece.second else row.text
    before, after = text[: piece.start], text[piece.end :]
    if not before or before[-1].isspace():
        after = after.lstrip()
    left = (before + after).strip()
    return replace(row, text_b=left) if piece.second else replace(row, text=left)


def occlude(
    scorer: Scorer, row: TextRow, columns: Columns, watch: Watch, *, seconds: float = SECONDS
) -> Occluded | None:
    """How much each word of a row matters; None where it is too long for the time, or one word alone."""
    if len(row.text) + len(row.text_b or "") > MOST_CHARACTERS:
        return None
    try:
        return _occluded(scorer, row, columns, watch, seconds)
    except InputError:  # what is left has no tokens for this model
        return None


def _occluded(scorer: Scorer, row: TextRow, columns: Columns, watch: Watch, seconds: float) -> Occluded | None:
    begun = time.perf_counter()
    whole = float(watch(scorer.score([row], columns).logits)[0])
    took = time.perf_counter() - begun
    most = min(MOST_PIECES, int(seconds / (TOGETHER * took))) if took > 0 else MOST_PIECES
    parts = pieces(row, max(most, LEAST_PIECES))
    if len(parts) > most:
        return None
    left = [(part, without(row, part)) for part in parts]
    left = [(part, one) for part, one in left if one.text and (one.text_b is None or one.text_b)]
    if not left:
        return None
    values = watch(scorer.score([one for _, one in left], columns).logits)
    words = tuple(
        Word(start=part.start, end=part.end, weight=whole - float(value), second=part.second)
        for (part, _), value in zip(left, values, strict=True)
    )
    return Occluded(whole=whole, words=words, scored=len(left) + 1)


def occlude_rows(
    scorer: Scorer,
    rows: Sequence[tuple[TextRow, Watch]],
    columns: Columns,
    *,
    seconds: float = SECONDS,
    told: Callable[[int, int], None] | None = None,
) -> list[Occluded | None]:
    """Several rows one after the other, the first ones first, for about so many seconds together."""
    made: list[Occluded | None] = []
    if rows:
        occlude(scorer, rows[0][0], columns, rows[0][1], seconds=0.0)  # the first answer is slow
    too_long = MOST_CHARACTERS + 1  # characters that there was no time for
    begun = time.perf_counter()
    for place, (row, watch) in enumerate(rows):
        left = seconds - (time.perf_counter() - begun)
        share = max(left / (len(rows) - place), left * EAGER)  # the first rows matter most
        size = len(row.text) + len(row.text_b or "")
        found = occlude(scorer, row, columns, watch, seconds=share) if left > 0 and size < too_long else None
        if found is None and len(pieces(row)) > 1:
            too_long = min(too_long, size)
        made.append(found)
        if told is not None:
            told(place + 1, len(rows))
    return made
