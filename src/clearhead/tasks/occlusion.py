"""What may be left out of a row, and what is watched meanwhile, to find the words that an answer hangs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clearhead.data.examples import TextRow
from clearhead.text.words import chunk_spans

if TYPE_CHECKING:
    import numpy as np

    from clearhead.tasks.examples import Pick
    from clearhead.tasks.task import Answers

    Array = np.ndarray[Any, Any]

MOST_NAME = 24  # letters of a piece of text that is named


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
    return tuple(Piece(start=begin + a, end=begin + b, second=second) for a, b in chunk_spans(text))


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


def watch_options(pick: Pick, row: TextRow, read: Read) -> Watching | None:
    """A question with options: the probability of the one that was taken, without words of passage and question."""
    if pick.chosen is None:
        return None
    taken, options = pick.chosen[1], row.extra
    passage = options.passage or ""
    begin = len(passage) + 1 if passage else 0  # where the question stands in the text

    def without(row: TextRow, piece: Piece) -> TextRow | None:
        question = options.question
        if piece.start < begin:
            left = cut(passage, piece.start, piece.end)
            return replace(row, extra=replace(options, passage=left)) if left else None
        left = cut(question, piece.start - begin, piece.end - begin)
        return replace(row, extra=replace(options, question=left)) if left or passage else None

    runs = (words_in(passage), words_in(options.question, begin))
    return Watching(runs=runs, value=lambda logits, _: read(logits).probs[:, taken], without=without)


def watch_question(pick: Pick, row: TextRow, read: Read) -> Watching | None:
    """A question on a passage: the probability of the answer that was given, or of none, without words asked."""
    said = next((mark for mark in pick.marks if mark.kind == "predicted"), None)

    def value(logits: Any, left: Left) -> Array:
        import numpy as np

        answers = read(logits)
        if said is None:
            return np.asarray(answers.probs[:, -1])
        found = answers.more  # the answer may have another rank now, or none: then it is hardly probable
        same = (found.begins == said.start) & (found.ends == said.end) & np.isfinite(found.scores)
        return np.asarray((answers.probs[:, :-1] * same).sum(1))

    return Watching(runs=(words_in(row.text),), value=value, without=without_words)


def watch_tags(pick: Pick, row: TextRow, read: Read) -> Watching | None:
    """A tagged text: the probability of the mistaken tags, without words before and after them."""
    borders = row.extra.borders
    if pick.place is None or pick.place[1] > len(borders):
        return None
    first, last = pick.place
    begin, end = borders[first][0], borders[last - 1][1]

    def value(logits: Any, left: Left) -> Array:
        import numpy as np

        answers = read(logits)
        made = np.empty(len(left))
        for number, piece in enumerate(left):
            gone = 0 if piece is None or piece.start >= end else len(_inside(borders, piece))
            probs = answers.probs.row(number)[first - gone : last - gone]
            made[number] = probs[range(len(pick.tags)), pick.tags].prod()
        return made

    mark = next((one for one in pick.marks if (one.start, one.end) == pick.place and one.kind == "predicted"), None)
    text = row.text[begin:end]
    short = text if len(text) <= MOST_NAME else f"{text[: MOST_NAME - 1]}…"
    return Watching(
        runs=tuple(tuple(Piece(start=a, end=b) for a, b in some) for some in (borders[:first], borders[last:])),
        value=value,
        without=_without_tagged,
        name=f"“{short}” as {'nothing' if mark is None else mark.label}",
    )


def _inside(borders: Sequence[tuple[int, int]], piece: Piece) -> list[int]:
    """The words of a piece, by their numbers."""
    return [place for place, (start, end) in enumerate(borders) if piece.start <= start and end <= piece.end]


def _without_tagged(row: TextRow, piece: Piece) -> TextRow | None:
    """The text without some of its words; the others stand where they then stand."""
    words, gone = row.extra, set(_inside(row.extra.borders, piece))
    end = piece.end
    if piece.start == 0 or row.text[piece.start - 1].isspace():
        end += len(row.text[end:]) - len(row.text[end:].lstrip())
    between = "" if any(map(str.isalnum, row.text[piece.start : end])) else _gap(row.text, piece.start, end)
    moved = end - piece.start - len(between)
    borders = [
        (a, b) if b <= piece.start else (a - moved, b - moved)
        for place, (a, b) in enumerate(words.borders)
        if place not in gone
    ]
    given = words.given and [word for place, word in enumerate(words.given) if place not in gone]
    text = row.text[: piece.start] + between + row.text[end:]
    return replace(row, text=text, extra=replace(words, borders=borders, given=given))


def _gap(text: str, start: int, end: int) -> str:
    """A space where two words would become one without the sign between them."""
    joins = start > 0 and end < len(text) and text[start - 1].isalnum() and text[end].isalnum()
    return " " if joins else ""


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
