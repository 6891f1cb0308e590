"""Labels: what they are called, which kind they are, and the numbers that models use for them."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from clearhead.data.sources.header import is_number
from clearhead.errors import InputError
from clearhead.files import to_printable

Kind = Literal["classes", "multilabel", "number", "tags", "answers", "options", "texts"]
KINDS = ("classes", "multilabel", "number")
SEPARATORS = ("|", ";")  # detected; others can be said
MAX_LABELS = 50_000  # a column with more different values is no label
MAX_LIST_CHARS = 10_000  # characters of a list in a cell
INVALID_TEXT = re.compile("[\0\ud800-\udfff]")  # what no file of text can hold


@dataclass(frozen=True, kw_only=True)
class LabelSpace:
    """The labels of a task: their names as the user writes them, in a fixed order."""

    names: tuple[str, ...] = ()
    kind: Kind = "classes"
    separator: str | None = None  # between the labels of one cell
    scheme: str | None = None  # how tags are written, whether questions may have no answer, how options are numbered

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The number of each name."""
        return {name: place for place, name in enumerate(self.names)}

    def encode(self, value: Any) -> int | float | tuple[int, ...]:
        """A cell as a class, a number or several classes; a sentence says what does not fit."""
        if self.kind == "number":
            number = parse_number(value)
            if number is None:
                raise InputError(f"label {to_printable(value, 40)!r} is not a number")
            return number
        if self.kind == "classes":
            place = self.ids.get(format_label(value))
            if place is None:
                raise InputError(f"label {to_printable(value, 40)!r} is {self._none_of}")
            return place
        parts = split_labels(value, self.separator)
        unknown = [part for part in parts if part not in self.ids]
        if unknown:
            raise InputError(f"label {to_printable(unknown[0], 40)!r} is {self._none_of}")
        return tuple(sorted({self.ids[part] for part in parts}))

    @property
    def _none_of(self) -> str:
        listed = ", ".join(to_printable(name, 30) for name in self.names[:8])
        return f"none of {listed}" + (f" and {len(self.names) - 8} more" if len(self.names) > 8 else "")


class LabelCounter:
    """Counts labels as they come, and says in the end what they are."""

    def __init__(self, *, kind: Kind | None = None, separator: str | None = None) -> None:
        if kind is not None and kind not in KINDS:
            raise InputError(f"labels of kind {kind!r}: expected one of {', '.join(KINDS)}.")
        self._kind, self._separator = kind, separator
        self.cells: Counter[str] = Counter()
        self.total = 0
        self._lists = 0
        self._numbers = 0
        self._fractions = 0
        self._seen: dict[str, tuple[bool, bool]] = {}  # cells, and whether they are numbers, with a fraction
        self.members: Counter[str] = Counter()  # of lists

    def add(self, value: Any) -> None:
        """One more cell that holds a label."""
        self.total += 1
        if self._kind == "number":
            return
        if isinstance(value, str) and value in self._seen:  # the same few labels come a million times
            number, fraction = self._seen[value]
            self._numbers += number
            self._fractions += fraction
            self.cells[value] += 1
            return
        members = None if self._kind == "classes" else parse_label_list(value)
        if members is not None:
            self._lists += 1
            self.members.update(members)
        else:
            found = parse_number(value)
            number, fraction = found is not None, found is not None and found != int(found)
            self._numbers += number
            self._fractions += fraction
            text = format_label(value)
            if text in self.cells or len(self.cells) <= MAX_LABELS:
                self.cells[text] += 1
                if isinstance(value, str):
                    self._seen[text] = (number, fraction)
        if max(len(self.cells), len(self.members)) > MAX_LABELS and self._numbers < self.total:
            raise InputError(f"the label column has more than {MAX_LABELS:,} different values, so it holds no labels.")

    def space(self) -> LabelSpace:
        """What the labels are, once all are counted."""
        kind = self._kind or self._found_kind()
        if kind == "number":
            return LabelSpace(kind="number")
        if kind == "classes":
            return LabelSpace(names=sort_naturally(self.cells), kind="classes")
        separator = self._separator or self._found_separator()
        if separator is None and not self._lists and self._kind == "multilabel":
            separator = next((sign for sign in (*SEPARATORS, ",") if any(sign in cell for cell in self.cells)), None)
        names = set(self.members)
        for cell in self.cells:
            names.update(split_labels(cell, separator))
        return LabelSpace(names=sort_naturally(names), kind="multilabel", separator=separator)

    def count_labels(self) -> Counter[str]:
        """How many rows have each label; empty for numbers."""
        space = self.space()
        counts: Counter[str] = Counter()
        if space.kind == "number":
            return counts
        counts.update(self.members)
        for cell, count in self.cells.items():
            for name in [cell] if space.kind == "classes" else set(split_labels(cell, space.separator)):
                counts[name] += count
        return counts

    def _found_kind(self) -> Kind:
        if self._separator is not None or self._lists or self._found_separator() is not None:
            return "multilabel"
        if self.total and self._numbers == self.total:
            many = len(self.cells)
            if (self._fractions and many >= 5) or (many > 50 and many > 0.1 * self.total):
                return "number"
        return "classes"

    def _found_separator(self) -> str | None:
        """A sign that cuts cells into labels which come again in other cells."""
        for sign in SEPARATORS:
            joined = sum(count for cell, count in self.cells.items() if sign in cell)
            parts = [part for cell in self.cells for part in split_labels(cell, sign)]
            if joined >= max(0.05 * self.total, 2) and len(parts) >= 1.5 * len(set(parts)):
                return sign
        return None


def read_labels(values: Iterable[Any], *, kind: Kind | None = None, separator: str | None = None) -> LabelSpace:
    """The labels of a column; the kind and the separator are found in the values unless they are said."""
    counter = LabelCounter(kind=kind, separator=separator)
    for value in values:
        if not is_missing(value):
            counter.add(value)
    return counter.space()


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing; an empty list is something, no labels."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and value != value)


def is_valid_text(value: Any) -> bool:
    """Whether a label, or every one of a list, can be written to a file: no NUL, no half characters."""
    if isinstance(value, list | tuple):
        return all(map(is_valid_text, value))
    return not isinstance(value, str) or INVALID_TEXT.search(value) is None


def format_label(value: Any) -> str:
    """A label as a string: strings stay as they are, the rest is written as in JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def parse_number(value: Any) -> float | None:
    """A finite number, also out of a string, with a point or a comma; None for everything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if len(value) > 64 or not is_number(value):
            return None
        value = value.strip().replace(",", ".") if "." not in value else value.strip()
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < float("inf") else None


def parse_label_list(value: Any) -> list[str] | None:
    """The labels of a list, or of a string that is a list in JSON or in Python; None for everything else."""
    if isinstance(value, list | tuple | set | frozenset):
        return [format_label(inner) for inner in value if not is_missing(inner)]
    if not isinstance(value, str) or len(value) > MAX_LIST_CHARS:
        return None
    text = value.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python's own, about the odd strings of other people
                found = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, list) and is_valid_text(found) and not any(isinstance(one, list | dict) for one in found):
            return [format_label(inner) for inner in found if not is_missing(inner)]
    return None


def split_labels(value: Any, separator: str | None) -> list[str]:
    """The labels of one cell."""
    members = parse_label_list(value)
    if members is not None:
        return members
    text = format_label(value)
    parts = text.split(separator) if separator else [text]
    return [part.strip() for part in parts if part.strip()] if separator else [part for part in parts if part.strip()]


def sort_naturally(names: Iterable[str]) -> tuple[str, ...]:
    """Numbers by value, then the rest by letters, so that 2 comes before 10 and the order of rows does not matter."""
    return tuple(
        sorted(
            names, key=lambda name: (parse_number(name) is None, parse_number(name) or 0.0, _natural_key(name), name)
        )
    )


def _natural_key(name: str) -> tuple[Any, ...]:
    cut = re.split(r"(\d{1,18})", name)  # text and digits take turns, so that pieces at one place can be compared
    return tuple(int(part) if place % 2 else part for place, part in enumerate(cut))
