"""What the first rows of a source contain in each column: texts, classes, numbers, lists or split names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.data.columns import format_column
from clearhead.data.names import SPLIT_ALIASES, TEXT_NAMES, normalize_name
from clearhead.data.sources.header import is_number
from clearhead.data.sources.source import Row, Source
from clearhead.errors import InputError

MAX_SAMPLE_ROWS = 1000  # whose cells are analyzed
MAX_SAMPLE_CELLS = 1_000_000  # of a very wide table, fewer rows are analyzed
MAX_CLASSES = 1000  # a column with more distinct values in the sample is not a label


@dataclass(frozen=True, kw_only=True)
class ColumnStats:
    """Statistics of one column over the first rows."""

    name: str
    filled_count: int
    distinct_count: int
    mean_characters: float  # on average
    mean_words: float
    is_numeric: bool
    is_integer: bool
    is_list: bool
    values: frozenset[str]

    @property
    def is_text(self) -> bool:
        """Whether cells look like texts: several words, or long strings of a script without spaces."""
        return not self.is_numeric and not self.is_list and (self.mean_words >= 2.5 or self.mean_characters >= 24)

    @property
    def has_sentences(self) -> bool:
        """Whether cells are certainly texts, and not long keys or addresses."""
        return self.is_text and (self.mean_words >= 2.5 or not all(value.isascii() for value in self.values))

    @property
    def holds_texts(self) -> bool:
        """Whether the column contains texts, judging by its cells or by its name if they are short."""
        is_named = (
            self.filled_count > 0
            and not self.is_numeric
            and not self.is_list
            and normalize_name(self.name) in TEXT_NAMES
        )
        return self.has_sentences or is_named

    @property
    def is_label(self) -> bool:
        """Whether cells look like classes: short values that recur."""
        repeats = self.distinct_count <= max(0.5 * self.filled_count, 2) and self.distinct_count <= MAX_CLASSES
        is_short = self.mean_characters <= 60 and self.mean_words <= 6
        return self.is_list or (
            self.filled_count > 0 and repeats and is_short and not (self.is_numeric and not self.is_integer)
        )

    @property
    def can_be_label(self) -> bool:
        """Whether a column with a usual label name can be the label."""
        return self.is_list or self.is_numeric or (self.mean_characters <= 100 and self.mean_words <= 8)

    @property
    def holds_split_names(self) -> bool:
        """Whether all cells name a split: train, dev or test."""
        return all(value.strip().casefold() in SPLIT_ALIASES for value in self.values)

    @property
    def summary(self) -> str:
        """One line about the column, for lists of columns."""
        kind = (
            "lists"
            if self.is_list
            else "numbers"
            if self.is_numeric
            else f"{self.mean_characters:.0f} characters on average"
        )
        return f"{format_column(self.name)} ({kind}, {self.distinct_count:,} different)"


def compute_column_stats(source: Source) -> dict[str, ColumnStats]:
    """Analyze the first rows of a source, column by column."""
    rows = [row.values for row in source.sample(MAX_SAMPLE_ROWS) if isinstance(row, Row)]
    if not rows:
        bad = next(iter(source.sample(1)), None)
        raise InputError(f"{source.name} has no usable rows" + (f"; {bad}." if bad else "."))
    cells_by_column: dict[str, list[Any]] = {name: [] for name in source.columns}
    cells_left = MAX_SAMPLE_CELLS
    for row in rows:
        for name, cell in row.items():
            if cell is not None and cell != "" and name in cells_by_column:
                cells_by_column[name].append(cell)
        cells_left -= len(row)
        if cells_left < 0:
            break
    return {name: _summarize_column(name, cells) for name, cells in cells_by_column.items()}


def _summarize_column(name: str, cells: Sequence[Any]) -> ColumnStats:
    texts = [cell if isinstance(cell, str) else str(cell) for cell in cells]
    count = max(len(cells), 1)
    numeric = bool(cells) and all(_is_numeric(cell) for cell in cells)
    values = frozenset(texts)
    return ColumnStats(
        name=name,
        filled_count=len(cells),
        distinct_count=len(values),
        mean_characters=sum(map(len, texts)) / count,
        mean_words=sum(len(cell.split()) for cell in texts) / count,
        is_numeric=numeric,
        is_integer=numeric and not any("." in cell.removesuffix(".0") or "e" in cell for cell in texts),
        is_list=bool(cells) and sum(isinstance(cell, list | tuple | dict) for cell in cells) > 0.5 * count,
        values=values,
    )


def _is_numeric(cell: object) -> bool:
    return is_number(cell) if isinstance(cell, str) else isinstance(cell, int | float) and not isinstance(cell, bool)
