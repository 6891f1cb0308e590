"""What the first rows of a source hold in each column: texts, classes, numbers, lists or the names of parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.data.columns import titled
from clearhead.data.names import PARTS, TEXTS, plain
from clearhead.data.sources.header import is_number
from clearhead.data.sources.source import Row, Source
from clearhead.errors import InputError

MOST_ROWS = 1000  # whose cells are read
MOST_CELLS = 1_000_000  # of a very wide table, fewer rows are read
MOST_CLASSES = 1000  # a column with more different values among the first rows is no label


@dataclass(frozen=True, kw_only=True)
class ColumnStats:
    """What the first rows hold in one column."""

    name: str
    filled: int
    distinct: int
    characters: float  # on average
    words: float
    numeric: bool
    whole: bool  # numbers without a fraction
    lists: bool
    values: frozenset[str]

    @property
    def is_text(self) -> bool:
        """Whether it reads like texts: several words, or long strings of a script without blanks."""
        return not self.numeric and not self.lists and (self.words >= 2.5 or self.characters >= 24)

    @property
    def has_sentences(self) -> bool:
        """Whether it certainly holds texts: an address or a key is long, too, and is none."""
        return self.is_text and (self.words >= 2.5 or not all(value.isascii() for value in self.values))

    @property
    def holds_texts(self) -> bool:
        """Whether a column holds texts by its cells, or by its name where they are short."""
        is_named = self.filled > 0 and not self.numeric and not self.lists and plain(self.name) in TEXTS
        return self.has_sentences or is_named

    @property
    def is_label(self) -> bool:
        """Whether it reads like classes: short values that come again and again."""
        again = self.distinct <= max(0.5 * self.filled, 2) and self.distinct <= MOST_CLASSES
        short = self.characters <= 60 and self.words <= 6
        return self.lists or (self.filled > 0 and again and short and not (self.numeric and not self.whole))

    @property
    def is_short(self) -> bool:
        """Whether a column that is called like a label can be one."""
        return self.lists or self.numeric or (self.characters <= 100 and self.words <= 8)

    @property
    def is_split(self) -> bool:
        """Whether it says train, dev and test."""
        return all(value.strip().casefold() in PARTS for value in self.values)

    @property
    def shown(self) -> str:
        """The column as it stands in a list of columns."""
        kind = "lists" if self.lists else "numbers" if self.numeric else f"{self.characters:.0f} characters on average"
        return f"{titled(self.name)} ({kind}, {self.distinct:,} different)"


def column_stats(source: Source) -> dict[str, ColumnStats]:
    """What each column holds, by its name."""
    rows = [row.values for row in source.sample(MOST_ROWS) if isinstance(row, Row)]
    if not rows:
        bad = next(iter(source.sample(1)), None)
        raise InputError(f"{source.name} holds no rows that can be used" + (f"; {bad}." if bad else "."))
    filled: dict[str, list[Any]] = {name: [] for name in source.columns}
    left = MOST_CELLS
    for row in rows:
        for name, cell in row.items():
            if cell is not None and cell != "" and name in filled:
                filled[name].append(cell)
        left -= len(row)
        if left < 0:
            break
    return {name: _stats_of(name, cells) for name, cells in filled.items()}


def _stats_of(name: str, filled: Sequence[Any]) -> ColumnStats:
    texts = [cell if isinstance(cell, str) else str(cell) for cell in filled]
    count = max(len(filled), 1)
    numeric = bool(filled) and all(_numeric(cell) for cell in filled)
    values = frozenset(texts)
    return ColumnStats(
        name=name,
        filled=len(filled),
        distinct=len(values),
        characters=sum(map(len, texts)) / count,
        words=sum(len(cell.split()) for cell in texts) / count,
        numeric=numeric,
        whole=numeric and not any("." in cell.removesuffix(".0") or "e" in cell for cell in texts),
        lists=bool(filled) and sum(isinstance(cell, list | tuple | dict) for cell in filled) > 0.5 * count,
        values=values,
    )


def _numeric(cell: object) -> bool:
    return is_number(cell) if isinstance(cell, str) else isinstance(cell, int | float) and not isinstance(cell, bool)
