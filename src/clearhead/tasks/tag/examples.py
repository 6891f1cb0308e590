"""Which tagged texts an error analysis shows, and which words of them are left out to see what matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.examples import MOST_SUSPICIOUS, MOST_WORST, VERY_SURE, Mark, Pick, Picks, first_places
from clearhead.tasks.occlusion import Left, Piece, Read, Watching
from clearhead.tasks.ragged import Ragged
from clearhead.tasks.tag.decoding import spans_of
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


MOST_NAME = 24  # letters of a piece of text that is named


def pick_tags(answers: Answers, targets: Ragged, space: LabelSpace, numbers: Sequence[int] | Array) -> Picks:
    """Sentences with the tag that is most surely wrong; marks count words, until the text is read."""
    import numpy as np

    said, probs = answers.labels, answers.probs.values
    own = probs[np.arange(len(probs)), said.values]
    missed = np.where(said.values != targets.values, own, -1.0)
    strength = np.full(len(targets), -1.0)
    np.maximum.at(strength, targets.owners, missed)
    wrong = np.flatnonzero(strength >= 0)

    def pick(place: int) -> Pick:
        true, told = (_spans(rows.row(place), space) for rows in (targets, said))
        begin, end = targets.bounds[place : place + 2]
        first, last = _mistaken(int(missed[begin:end].argmax()), true, told)
        return Pick(
            row=int(numbers[place]),
            truth=_counted(true),
            answer=_counted(told),
            sure=float(strength[place]),
            marks=_marks(true, told),
            words=True,
            place=(first, last),
            tags=tuple(int(tag) for tag in said.row(place)[first:last]),
        )

    odd = wrong[strength[wrong] >= VERY_SURE]
    return Picks(
        worst=tuple(map(pick, first_places(wrong, -strength[wrong], MOST_WORST))),
        suspicious=tuple(map(pick, first_places(odd, -strength[odd], MOST_SUSPICIOUS))),
        wrong=len(wrong),
        doubtful=len(odd),
    )


def _spans(row: Array, space: LabelSpace) -> set[tuple[int, int, str]]:
    return set(spans_of([space.names[tag] for tag in row], space.scheme))


def _mistaken(word: int, true: set[tuple[int, int, str]], said: set[tuple[int, int, str]]) -> tuple[int, int]:
    """The words of the answered entity that a wrong tag is in, or those of the true one that were taken for nothing."""
    for first, last, _ in said:
        if first <= word < last:
            return first, last
    first, last = next(((a, b) for a, b, _ in true if a <= word < b), (word, word + 1))
    taken = {place for a, b, _ in said for place in range(a, b)}
    begin = max((place + 1 for place in taken if first <= place < word), default=first)
    return begin, min((place for place in taken if word < place < last), default=last)


def _counted(spans: set[tuple[int, int, str]]) -> str:
    counts = Counter(label for _, _, label in spans)
    return ", ".join(f"{count} {label}" for label, count in sorted(counts.items())) or "(none)"


def _marks(true: set[tuple[int, int, str]], said: set[tuple[int, int, str]]) -> tuple[Mark, ...]:
    """What only one of the two has, and what both have; of plain tags, which mark every word, the differences alone."""
    kinds = (("both", true & said), ("true", true - said), ("predicted", said - true))
    made = [Mark(start=a, end=b, label=label, kind=kind) for kind, some in kinds for a, b, label in some]  # type: ignore[arg-type]
    made.sort(key=lambda mark: (mark.start, mark.end, mark.kind))
    return tuple(made)


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
