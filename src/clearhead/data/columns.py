"""Columns by the part that they play: those that the user named, and those that a run reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.deprecation import renamed_fields
from clearhead.files import to_printable

MAX_NAME_CHARS = 40  # characters of a column's name in a message


@renamed_fields(said="messages", named="used")
@dataclass(frozen=True, kw_only=True)
class Columns:
    """The column of each role; `messages` describe what was selected and why."""

    text: str
    text_b: str | None = None
    label: str | None = None
    id: str | None = None
    split: str | None = None
    options: tuple[str, ...] = ()  # of a question: a column each, or one that holds them all
    messages: tuple[str, ...] = ()
    unused_texts: tuple[str, ...] = ()  # columns that read like texts and play no part

    @property
    def used(self) -> tuple[str, ...]:
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


def format_column(name: str) -> str:
    """A column's name as it may stand in a message."""
    return to_printable(name, MAX_NAME_CHARS)


def format_columns(columns: Sequence[str], most: int = 20) -> str:
    """The first names of many as they may stand in a message."""
    return ", ".join(map(format_column, columns[:most])) + (", ..." if len(columns) > most else "")
