"""Columns by the part that they play: those that the user named, and those that a run reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.files import to_printable

MOST_NAME = 40  # characters of a column's name in a message


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which column plays which part; `said` tells people what was chosen and why."""

    text: str
    text_b: str | None = None
    label: str | None = None
    id: str | None = None
    split: str | None = None
    options: tuple[str, ...] = ()  # of a question: a column each, or one that holds them all
    said: tuple[str, ...] = ()
    unused_texts: tuple[str, ...] = ()  # columns that read like texts and play no part

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that are used."""
        found = (self.text, self.text_b, self.label, self.id, self.split)
        return (*(name for name in found if name is not None), *self.options)


@dataclass(frozen=True, kw_only=True)
class ColumnRoles:
    """Which columns the user named for each role; None: to be found."""

    text: str | None = None
    text_b: str | None = None
    label: str | None = None
    id: str | None = None
    split: str | None = None
    options: tuple[str, ...] = ()


def titled(name: str) -> str:
    """A column's name as it may stand in a message."""
    return to_printable(name, MOST_NAME)


def titles(columns: Sequence[str], most: int = 20) -> str:
    """The first names of many as they may stand in a message."""
    return ", ".join(map(titled, columns[:most])) + (", ..." if len(columns) > most else "")
