"""Rows with their texts, as a report shows them: what was true, what was answered, and which words mattered."""

from __future__ import annotations

from dataclasses import dataclass

from clearhead.tasks.examples import Cell, Mark, Pick


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
