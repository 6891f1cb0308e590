"""Rows that an error analysis picks, and how a report shows them: truth, answer, and the words that mattered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

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


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word, or some words in a row, and how much the answer loses without it."""

    start: int
    end: int
    weight: float  # probability (or number) of the answer with it, minus without it
    second: bool = False  # stands in the second text


@dataclass(frozen=True, kw_only=True)
class Example:
    """A row that was picked, with the beginning of its texts."""

    pick: Pick
    text: str
    text_b: str | None = None
    words: tuple[Word, ...] | None = None  # None: nobody looked
    whole: float | None = None  # probability (or number) of the answer when nothing is left out
    watched: str | None = None  # what that is of; None: the answer
    cut: bool = False  # whether the texts go on

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Spans and entities in the text, which is not cut where there are any."""
        return self.pick.marks


@dataclass(frozen=True, kw_only=True)
class ShownCell:
    """A cell of the confusion with the rows that are shown of it."""

    cell: Cell
    examples: tuple[Example, ...]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The examples of a part."""

    worst: tuple[Example, ...] = ()
    suspicious: tuple[Example, ...] = ()
    cells: tuple[ShownCell, ...] = ()
    explained: int = 0  # rows whose words were left out one by one
    scored: int = 0  # texts that the model read for it
    seconds: float = 0.0


def first_places(places: Array, keys: Array, most: int) -> list[int]:
    """The places with the smallest keys; equal ones in the order of the rows."""
    import numpy as np

    return [int(place) for place in places[np.argsort(keys, kind="stable")[:most]]]
