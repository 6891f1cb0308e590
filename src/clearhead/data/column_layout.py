"""Which columns the rows of a task have, as a value: their roles, the names that people give them, what is required."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from clearhead.data.names import PAIR_NAMES, SPLIT_NAMES
from clearhead.data.sources.source import Source

RoleName = Literal["text", "text_b", "label"]
MISSING_COLUMN = "{source} has no column of {content} among {columns}; say which one with {setting}."


@dataclass(frozen=True, kw_only=True)
class Role:
    """A part that a column plays, and how that column is found where the user named none."""

    name: RoleName
    column_names: tuple[str, ...]  # what people call it, best first
    title: str = ""  # what it is called in the list of columns that were chosen
    pair_title: str = ""  # the same where rows have a second text
    content: str = ""  # what the column holds, for messages
    required: bool = False  # a label: where rows must have one
    missing_message: str = MISSING_COLUMN
    setting_name: str = ""  # the setting that names it; empty: the name of the part
    setting_value: str | None = "COLUMN"  # of that setting, in messages
    # which one by its cells as well: from the source, columns by their names as compared, and the label
    choose_column: Callable[[Source, Mapping[str, str], str | None], str | None] | None = None


@dataclass(frozen=True, kw_only=True)
class ColumnLayout:
    """The columns that a task reads; without roles, one text or two and a label of a cell, by names and cells."""

    roles: tuple[Role, ...] = ()  # found one after the other, by their names
    second_text: bool | None = None  # a second text: needed, never, or as it comes
    numeric_label: bool = False  # labels are numbers
    pair_names: tuple[tuple[str, str], ...] = PAIR_NAMES  # names of first and second text that go together
    find_options: Callable[[Source], tuple[str, ...]] | None = None  # the columns of options, where rows have any
    nested_options: str = ""  # a column of this name that holds the options holds the text, too
    header_only: bool = False  # names and their number decide, so that no row is read ahead
    split_names: tuple[str, ...] = SPLIT_NAMES  # names of the column that says which part a row belongs to
    matches: Callable[[Source], bool] | None = None  # whether a source can only be meant for this task
    source_kind: str | None = None  # a file format whose rows are meant for this task, whatever their columns


ONE_OR_TWO_TEXTS = ColumnLayout()
