"""Columns by role: those that the user named, and those that a run reads."""

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
    options: tuple[str, ...] = ()  # of a question: one column each, or a single column with all of them
    messages: tuple[str, ...] = ()
    unused_texts: tuple[str, ...] = ()  # columns that contain texts but have no role

    @property
    def used(self) -> tuple[str, ...]:
        """All columns with a role."""
        roles = (self.text, self.text_b, self.label, self.id, self.split)
        return (*(name for name in roles if name is not None), *self.options)


@dataclass(frozen=True, kw_only=True)
class ColumnRoles:
    """The columns that the user named for each role; None: to be detected."""

    text: str | None = None
    text_b: str | None = None
    label: str | None = None
    id: str | None = None
    split: str | None = None
    options: tuple[str, ...] = ()


def format_column(name: str) -> str:
    """Format a column name for a message."""
    return to_printable(name, MAX_NAME_CHARS)


def format_columns(columns: Sequence[str], max_names: int = 20) -> str:
    """Format the first `max_names` column names for a message."""
    return ", ".join(map(format_column, columns[:max_names])) + (", ..." if len(columns) > max_names else "")
