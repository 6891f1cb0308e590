"""The columns that a task reads: their roles, their usual names, and which ones are required."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from clearhead.data.names import PAIR_NAMES, SPLIT_NAMES
from clearhead.data.sources.source import Source

RoleName = Literal["text", "text_b", "label"]
MISSING_COLUMN = "{source} has no column of {content} among {columns}; name it with {setting}."


@dataclass(frozen=True, kw_only=True)
class Role:
    """The role of a column, and how the column is found if the user does not name it."""

    name: RoleName
    column_names: tuple[str, ...]  # usual names, best first
    title: str = ""  # in the list of selected columns
    pair_title: str = ""  # the same if rows have a second text
    content: str = ""  # what the column contains, for messages
    required: bool = False  # for a label: only if rows must have one
    missing_message: str = MISSING_COLUMN
    setting_name: str = ""  # the setting that names the column; empty: the name of the role
    setting_value: str | None = "COLUMN"  # of that setting, in messages
    # selects a column from the source, its columns by normalized name, and the label column
    choose_column: Callable[[Source, Mapping[str, str], str | None], str | None] | None = None


@dataclass(frozen=True, kw_only=True)
class ColumnLayout:
    """The columns that a task reads; without roles, one or two texts and a label, found by names and cells."""

    roles: tuple[Role, ...] = ()  # resolved in this order
    second_text: bool | None = None  # required, never, or (None) optional
    numeric_label: bool = False  # labels are numbers
    pair_names: tuple[tuple[str, str], ...] = PAIR_NAMES  # names of first and second texts that belong together
    find_options: Callable[[Source], tuple[str, ...]] | None = None  # the columns of answer options
    nested_options: str = ""  # a column of options with this name also contains the text
    header_only: bool = False  # the header is sufficient; no rows are read
    split_names: tuple[str, ...] = SPLIT_NAMES  # usual names of the split column
    matches: Callable[[Source], bool] | None = None  # whether a source is certainly meant for this task
    source_kind: str | None = None  # a file format that is always meant for this task


ONE_OR_TWO_TEXTS = ColumnLayout()
