"""Which column is the text and which is the label: by name, by content, or as said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.caller import setting
from clearhead.data.names import IDS, LABELS, NUMBERS, PAIRS, PARTS, SPLITS, TEXT_PAIRS, TEXTS, plain
from clearhead.data.sources.header import is_number
from clearhead.data.sources.source import Row, Source
from clearhead.errors import InputError
from clearhead.files import to_printable

LOOKED_AT = 1000
MOST_LOOKS = 1_000_000  # cells; of a very wide table, fewer rows are looked at
MOST_NAME = 40  # characters of a column's name in a message
MOST_CLASSES = 1000  # a column with more different values among the first rows is no label


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
class _Look:
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


def titled(name: str) -> str:
    """A column's name as it may stand in a message."""
    return to_printable(name, MOST_NAME)


def titles(columns: Sequence[str], most: int = 20) -> str:
    """The first names of many as they may stand in a message."""
    return ", ".join(map(titled, columns[:most])) + (", ..." if len(columns) > most else "")


# by the name of a task: whether a second text is needed, and whether labels are numbers
READS: dict[str, tuple[bool | None, bool]] = {
    "classify": (False, False),
    "pair": (True, False),
    "regress": (None, True),
}


def guess_columns(
    source: Source,
    text: str | None = None,
    text_b: str | None = None,
    label: str | None = None,
    id: str | None = None,  # noqa: A002
    split: str | None = None,
    task: str | None = None,
    *,
    second: bool | None = None,
    number: bool = False,
    labelled: bool = True,
    pairs: bool = True,
) -> Columns:
    """The part that each column plays; without `labelled`, a label is taken if there is one by name.

    `second`: a second text is needed, or never there; None: as it comes. `number`: labels are numbers. The name of a
    task of texts and labels in cells stands for both.
    Without `pairs`, two columns that are named as pairs are not taken together.
    """
    if task is not None:
        second, number = READS.get(task, (second, number))
    said: list[str] = []
    looks = _looks(source)
    for part, name in (("text", text), ("text_b", text_b), ("label", label), ("id", id), ("split", split)):
        if name is not None and name not in source.columns:
            has = titles(source.columns)
            raise InputError(f"{source.name} has no column {titled(name)!r} for {setting(part)}; it has {has}.")
    said += [f"{part}: {titled(name)} (as said)" for part, name in (("text", text), ("second text", text_b)) if name]
    taken = {name for name in (text, text_b, label, id, split) if name is not None}
    free = [look for name, look in looks.items() if name not in taken]
    if id is None and (found := _by_name(free, IDS, lambda look: not look.lists)):
        id = found.name  # noqa: A001
        name = titled(id)
        said.append(f"id: {name} (by its name; rows with the same {name} stay together when the data is split)")
    if split is None and (found := _by_name(free, SPLITS, lambda look: look.is_split)):
        split = found.name
        said.append(f"split: {titled(split)} (by its name and values)")
    free = [look for look in free if look.name not in (id, split)]
    if text is None and text_b is None and second is not False and pairs and (pair := _pair(free, label)):
        text, text_b = pair
        said.append(f"texts: {titled(text)} and {titled(text_b)} (by their names)")
    if text is None:
        text, why = _text(source, [look for look in free if look.name != label], list(looks.values()))
        said.append(f"text: {titled(text)} ({why})")
    if text_b is None and second:
        text_b = _second(source, [look for look in free if look.name not in (text, label)])
        said.append(f"second text: {titled(text_b)} (the other column that holds texts)")
    free = [look for look in free if look.name not in (text, text_b)]
    if label is not None:
        said.append(f"label: {titled(label)} (as said)")
    else:
        label, why = _label(source, free, list(looks.values()), number=number, labelled=labelled)
        said += [f"label: {titled(label)} ({why})"] if label is not None else []
    unused = [name for name in source.columns if name not in (text, text_b, label, id, split)]
    said += [f"not used: {titles(unused)}"] if unused else []
    return Columns(
        text=text,
        text_b=text_b,
        label=label,
        id=id,
        split=split,
        said=tuple(said),
        unused_texts=tuple(name for name in unused if name in looks and _holds_texts(looks[name])),
    )


def _holds_texts(look: _Look) -> bool:
    """Whether a column holds texts by its cells, or by its name where they are short."""
    return look.has_sentences or (look.filled > 0 and not look.numeric and not look.lists and plain(look.name) in TEXTS)


def _looks(source: Source) -> dict[str, _Look]:
    rows = [row.values for row in source.sample(LOOKED_AT) if isinstance(row, Row)]
    if not rows:
        bad = next(iter(source.sample(1)), None)
        raise InputError(f"{source.name} holds no rows that can be used" + (f"; {bad}." if bad else "."))
    filled: dict[str, list[Any]] = {name: [] for name in source.columns}
    left = MOST_LOOKS
    for row in rows:
        for name, cell in row.items():
            if cell is not None and cell != "" and name in filled:
                filled[name].append(cell)
        left -= len(row)
        if left < 0:
            break
    return {name: _look(name, cells) for name, cells in filled.items()}


def _look(name: str, filled: Sequence[Any]) -> _Look:
    texts = [cell if isinstance(cell, str) else str(cell) for cell in filled]
    count = max(len(filled), 1)
    numeric = bool(filled) and all(_numeric(cell) for cell in filled)
    values = frozenset(texts)
    return _Look(
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


def _by_name(looks: list[_Look], names: Sequence[str], fits: Callable[[_Look], bool]) -> _Look | None:
    """The first column, in the order of the names, that is called so and fits."""
    called = {plain(look.name): look for look in reversed(looks)}
    return next((called[name] for name in names if name in called and called[name].filled and fits(called[name])), None)


def _pair(looks: list[_Look], label: str | None) -> tuple[str, str] | None:
    """Two columns whose names go together; where a name alone does not tell that it is a text, its cells must."""
    called = {plain(look.name): look for look in reversed(looks) if look.name != label}
    for first, second in PAIRS:
        if first in called and second in called:
            one, two = called[first], called[second]
            if any(look.numeric or look.lists or not look.filled for look in (one, two)):
                continue
            by_cells = one.is_text and (two.is_text or not two.is_label or second == "aspect")  # aspects come again
            if by_cells or (first, second) in TEXT_PAIRS:
                return one.name, two.name
    return None


def _text(source: Source, free: list[_Look], looks: list[_Look]) -> tuple[str, str]:
    by_name = _by_name(free, TEXTS, lambda look: not look.numeric and not look.lists)
    if by_name is not None:
        return by_name.name, "by its name"
    texts = sorted((look for look in free if look.is_text), key=lambda look: -look.characters)
    if not texts and len(free) == 1 and len(looks) == 1 and not free[0].lists:
        return free[0].name, "the only column"
    texts = texts or sorted(
        (look for look in free if not look.numeric and not look.lists and not look.is_label),
        key=lambda look: -look.characters,
    )
    if not texts:
        which = setting("text", "COLUMN")
        raise InputError(f"no column of {source.name} reads like texts: {_listed(looks)}. Say which one with {which}.")
    if len(texts) > 1 and texts[1].characters > 0.5 * texts[0].characters:
        both = f"{titled(texts[0].name)} and {titled(texts[1].name)}"
        raise InputError(
            f"{both} of {source.name} both read like texts: {_listed(looks)}. Say which one with "
            f"{setting('text', 'COLUMN')} (and the other with {setting('text_b')} for a task on two texts), or "
            f"{setting('task', 'translate')} where one is written for the other."
        )
    return texts[0].name, "the longest texts"


def _second(source: Source, free: list[_Look]) -> str:
    texts = [look for look in free if look.is_text]
    if len(texts) != 1:
        which = setting("text_b", "COLUMN")
        count = "no second column" if not texts else f"{len(texts)} more columns"
        raise InputError(f"{source.name} has {count} of texts: {_listed(free)}. Say which one with {which}.")
    return texts[0].name


def _label(
    source: Source, free: list[_Look], looks: list[_Look], *, number: bool, labelled: bool
) -> tuple[str | None, str]:
    if number:
        by_name = _by_name(free, (*NUMBERS, *LABELS), lambda look: look.numeric)
        others = [look for look in free if look.numeric and look.distinct > 2]
    else:
        by_name = _by_name(free, LABELS, lambda look: look.is_short)
        others = [look for look in free if look.is_label]
    if by_name is not None:
        rest = [look.name for look in others if look is not by_name]
        also = f"; {titles(rest, 5)} could be one, too: say it with {setting('label', 'COLUMN')}" if rest else ""
        return by_name.name, f"by its name{also}"
    if not labelled:
        return None, ""
    others = [look for look in others if look.distinct > 1] or others
    if not others:
        others = [look for look in free if look.numeric and not look.whole]  # scores
    if len(others) == 1:
        return others[0].name, f"{others[0].distinct:,} different values that come again and again"
    if others:
        names, which = titles([look.name for look in others], 10), setting("label", "COLUMN")
        raise InputError(
            f"{names} of {source.name} could each be the label: {_listed(looks)}. Say which one with {which}."
        )
    which = setting("label", "COLUMN")
    raise InputError(f"no column of {source.name} reads like a label: {_listed(looks)}. Say which one with {which}.")


def _listed(looks: Sequence[_Look]) -> str:
    return ", ".join(look.shown for look in looks[:12]) + (", ..." if len(looks) > 12 else "")
