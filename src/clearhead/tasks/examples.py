"""Which rows are worth a look: the worst answers, probable label errors, and some of each cell of the confusion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from clearhead.data.labels import LabelSpace
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MOST_WORST = 10
MOST_SUSPICIOUS = 10
EACH = 5  # rows of a cell
MOST_CELLS = 60  # cells of which rows are kept, the most frequent mistakes first
SURE = 0.5  # below it no answer speaks against a label
VERY_SURE = 0.9  # from here on every answer does
AHEAD = 0.5  # by so much another label must be more probable than the given one to make it suspicious
FAR = 3.5  # spreads (from the median, as a normal one) beyond which an error of a number is odd


MarkKind = Literal["true", "predicted", "both"]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A piece of a text with a label: the true answer, the predicted one, or both at once."""

    start: int
    end: int
    label: str
    kind: MarkKind


@dataclass(frozen=True, kw_only=True)
class Pick:
    """A row that was picked: its number in the source, and what was said of it."""

    row: int
    truth: str
    answer: str
    sure: float | None = None  # how sure the model is of what it got wrong, or of its answer
    given: float | None = None  # how probable the given label is to it
    error: float | None = None  # of a number: answer minus truth
    watched: int | None = None  # the output whose probability says so; None: the answer is a number
    against: bool = False  # of several labels: the one watched was not answered
    marks: tuple[Mark, ...] = ()  # of spans and tags: what is true and what was answered, in the first text
    words: bool = False  # whether marks count words, and not characters
    options: tuple[str, ...] = ()  # of a multiple choice
    chosen: tuple[int, int] | None = None  # of a multiple choice: the true option, and the one that was taken
    place: tuple[int, int] | None = None  # of tags: the words that are surely wrong, one past the last, ...
    tags: tuple[int, ...] = ()  # ... and what was said of each of them


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Rows with one true label and one answer."""

    true: int
    answered: int
    count: int
    picks: tuple[Pick, ...]  # the surest of mistakes, the least sure of right answers


@dataclass(frozen=True, kw_only=True)
class Picks:
    """What was picked of some rows, by their numbers; the texts stay where they are."""

    worst: tuple[Pick, ...] = ()
    suspicious: tuple[Pick, ...] = ()
    wrong: int = 0  # answers that are not right; of numbers, all that were measured
    doubtful: int = 0  # labels that are suspicious, of which only some are kept
    cells: tuple[Cell, ...] = ()

    def every(self) -> Iterator[Pick]:
        """All of them, those of several lists several times."""
        yield from self.worst
        yield from self.suspicious
        for cell in self.cells:
            yield from cell.picks


def picked(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> Picks | None:
    """The rows of a part that are worth a look; None for kinds of labels that have no way to pick yet."""
    maker = PICKERS.get(space.kind)
    return None if maker is None or not len(targets) else maker(answers, targets, space, numbers)


def pick_classes(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> Picks:
    """One label a row."""
    import numpy as np

    assert answers.probs is not None
    probs, said = answers.probs, answers.labels
    every = np.arange(len(targets))
    sure, given = probs[every, said], probs[every, targets]
    wrong = np.flatnonzero(said != targets)

    def pick(place: int) -> Pick:
        return Pick(
            row=int(numbers[place]),
            truth=space.names[targets[place]],
            answer=space.names[said[place]],
            sure=float(sure[place]),
            given=float(given[place]),
            watched=int(said[place]),
        )

    usual = _usual(probs, targets, len(space))
    odd = wrong[sure[wrong] >= np.clip(usual[said[wrong]], SURE, VERY_SURE)]
    odd = odd[sure[odd] - given[odd] >= AHEAD]
    margin = given[odd] - sure[odd]
    return Picks(
        worst=tuple(map(pick, first_places(wrong, -sure[wrong], MOST_WORST))),
        suspicious=tuple(map(pick, first_places(odd, margin, MOST_SUSPICIOUS))),
        wrong=len(wrong),
        doubtful=len(odd),
        cells=tuple(_cells(targets, said, sure, len(space), pick)),
    )


def _usual(probs: Array, targets: Array, classes: int) -> Array:
    """(classes,) how probable each class is to the model on rows that have it: the threshold of confident learning."""
    import numpy as np

    counts = np.bincount(targets, minlength=classes)
    own = np.bincount(targets, weights=probs[np.arange(len(targets)), targets], minlength=classes)
    return np.asarray(np.where(counts > 0, own / np.maximum(counts, 1), SURE))


def _cells(targets: Array, said: Array, sure: Array, classes: int, pick: Callable[[int], Pick]) -> Iterator[Cell]:
    """Frequent mistakes first, then right answers."""
    import numpy as np

    codes = targets.astype(np.int64) * classes + said
    found, counts = np.unique(codes, return_counts=True)
    wrong = found // classes != found % classes
    for place in np.lexsort((found, -counts, ~wrong))[:MOST_CELLS]:
        rows = np.flatnonzero(codes == found[place])
        sign = -1 if wrong[place] else 1
        yield Cell(
            true=int(found[place] // classes),
            answered=int(found[place] % classes),
            count=int(counts[place]),
            picks=tuple(map(pick, first_places(rows, sign * sure[rows], EACH))),
        )


def pick_several(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> Picks:
    """Several labels a row: each row stands for the decision that is most surely wrong."""
    import numpy as np

    assert answers.probs is not None
    yes = answers.labels == 1
    sure = np.where(yes, answers.probs, 1 - answers.probs)  # of each decision
    missed = np.where(answers.labels != targets, sure, -1.0)
    worst = missed.argmax(-1)
    every = np.arange(len(targets))
    strength = missed[every, worst]
    wrong = np.flatnonzero(strength >= 0)

    def named(row: Array) -> str:
        return ", ".join(space.names[place] for place in np.flatnonzero(row)) or "(none)"

    def pick(place: int) -> Pick:
        watched = int(worst[place])
        return Pick(
            row=int(numbers[place]),
            truth=named(targets[place]),
            answer=named(answers.labels[place]),
            sure=float(strength[place]),
            given=1 - float(strength[place]),
            watched=watched,
            against=not bool(yes[place, watched]),
        )

    having = np.maximum(targets.sum(0), 1)
    lacking = np.maximum((1 - targets.astype(np.int64)).sum(0), 1)
    usual_yes = (answers.probs * (targets == 1)).sum(0) / having
    usual_no = ((1 - answers.probs) * (targets == 0)).sum(0) / lacking
    usual = np.where(yes[wrong, worst[wrong]], usual_yes[worst[wrong]], usual_no[worst[wrong]])
    odd = wrong[strength[wrong] >= np.clip(usual, (1 + AHEAD) / 2, VERY_SURE)]
    return Picks(
        worst=tuple(map(pick, first_places(wrong, -strength[wrong], MOST_WORST))),
        suspicious=tuple(map(pick, first_places(odd, -strength[odd], MOST_SUSPICIOUS))),
        wrong=len(wrong),
        doubtful=len(odd),
    )


def pick_numbers(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> Picks:
    """The largest errors, and those that are far beyond what is usual here."""
    import numpy as np

    errors = answers.labels - targets
    size = np.abs(errors)

    def pick(place: int) -> Pick:
        return Pick(
            row=int(numbers[place]),
            truth=f"{targets[place]:.4g}",
            answer=f"{answers.labels[place]:.4g}",
            error=float(errors[place]),
        )

    middle = np.median(errors)
    spread = 1.4826 * float(np.median(np.abs(errors - middle)))  # of a normal distribution, its standard deviation
    odd = np.flatnonzero(np.abs(errors - middle) > FAR * spread) if spread > 0 else np.zeros(0, np.int64)
    every = np.flatnonzero(size > 0)
    return Picks(
        worst=tuple(map(pick, first_places(every, -size[every], MOST_WORST))),
        suspicious=tuple(map(pick, first_places(odd, -size[odd], MOST_SUSPICIOUS))),
        wrong=len(targets),
        doubtful=len(odd),
    )


def first_places(places: Array, keys: Array, most: int) -> list[int]:
    """The places with the smallest keys; equal ones in the order of the rows."""
    import numpy as np

    return [int(place) for place in places[np.argsort(keys, kind="stable")[:most]]]


Picker = Callable[[Answers, "Array", LabelSpace, "Sequence[int] | Array"], Picks]
PICKERS: dict[str, Picker] = {  # by the kind of labels; a new kind of answer adds its own
    "classes": pick_classes,
    "multilabel": pick_several,
    "number": pick_numbers,
}
