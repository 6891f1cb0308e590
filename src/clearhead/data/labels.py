"""Label spaces: names, kinds (classes, several labels, numbers) and conversion to label ids."""

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
SEPARATORS = ("|", ";")  # detected; others can be set
MAX_LABELS = 50_000  # a column with more distinct values is not a label
MAX_LIST_CHARS = 10_000  # characters of a list in a cell
INVALID_TEXT = re.compile("[\0\ud800-\udfff]")  # cannot be written to a text file


@dataclass(frozen=True, kw_only=True)
class LabelSpace:
    """The labels of a task: their names in a fixed order, as the user writes them."""

    names: tuple[str, ...] = ()
    kind: Kind = "classes"
    separator: str | None = None  # between the labels of one cell
    scheme: str | None = None  # tagging scheme, whether questions may be unanswerable, how options are numbered

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Label ids by name."""
        return {name: index for index, name in enumerate(self.names)}

    def encode(self, value: Any) -> int | float | tuple[int, ...]:
        """Convert a cell to a label id, a number or several label ids; raise InputError if it does not fit."""
        if self.kind == "number":
            number = parse_number(value)
            if number is None:
                raise InputError(f"label {to_printable(value, 40)!r} is not a number")
            return number
        if self.kind == "classes":
            label_id = self.ids.get(format_label(value))
            if label_id is None:
                raise InputError(f"label {to_printable(value, 40)!r} is {self._unknown_label_hint}")
            return label_id
        parts = split_labels(value, self.separator)
        unknown = [part for part in parts if part not in self.ids]
        if unknown:
            raise InputError(f"label {to_printable(unknown[0], 40)!r} is {self._unknown_label_hint}")
        return tuple(sorted({self.ids[part] for part in parts}))

    @property
    def _unknown_label_hint(self) -> str:
        listed = ", ".join(to_printable(name, 30) for name in self.names[:8])
        return f"not one of {listed}" + (f" and {len(self.names) - 8} more" if len(self.names) > 8 else "")


class LabelCounter:
    """Counts labels row by row and infers their label space."""

    def __init__(self, *, kind: Kind | None = None, separator: str | None = None) -> None:
        if kind is not None and kind not in KINDS:
            raise InputError(f"labels of kind {kind!r}: expected one of {', '.join(KINDS)}.")
        self._kind, self._separator = kind, separator
        self.cells: Counter[str] = Counter()
        self.total = 0
        self._lists = 0
        self._numbers = 0
        self._fractions = 0
        self._number_facts: dict[
            str, tuple[bool, bool]
        ] = {}  # by cell: whether it is a number, and whether it has a fraction
        self.members: Counter[str] = Counter()  # of lists

    def add(self, value: Any) -> None:
        """Count a cell."""
        self.total += 1
        if self._kind == "number":
            return
        if (
            isinstance(value, str) and value in self._number_facts
        ):  # fast path: a few labels are repeated a million times
            is_number, has_fraction = self._number_facts[value]
            self._numbers += is_number
            self._fractions += has_fraction
            self.cells[value] += 1
            return
        members = None if self._kind == "classes" else parse_label_list(value)
        if members is not None:
            self._lists += 1
            self.members.update(members)
        else:
            number_value = parse_number(value)
            is_number, has_fraction = (
                number_value is not None,
                number_value is not None and number_value != int(number_value),
            )
            self._numbers += is_number
            self._fractions += has_fraction
            text = format_label(value)
            if text in self.cells or len(self.cells) <= MAX_LABELS:
                self.cells[text] += 1
                if isinstance(value, str):
                    self._number_facts[text] = (is_number, has_fraction)
        if max(len(self.cells), len(self.members)) > MAX_LABELS and self._numbers < self.total:
            raise InputError(f"The label column has more than {MAX_LABELS:,} distinct values, too many for labels.")

    def space(self) -> LabelSpace:
        """Infer the label space from all counted cells."""
        kind = self._kind or self._detect_kind()
        if kind == "number":
            return LabelSpace(kind="number")
        if kind == "classes":
            return LabelSpace(names=sort_naturally(self.cells), kind="classes")
        separator = self._separator or self._detect_separator()
        if separator is None and not self._lists and self._kind == "multilabel":
            separator = next(
                (candidate for candidate in (*SEPARATORS, ",") if any(candidate in cell for cell in self.cells)), None
            )
        names = set(self.members)
        for cell in self.cells:
            names.update(split_labels(cell, separator))
        return LabelSpace(names=sort_naturally(names), kind="multilabel", separator=separator)

    def count_labels(self) -> Counter[str]:
        """Count the rows of each label; empty for numbers."""
        space = self.space()
        counts: Counter[str] = Counter()
        if space.kind == "number":
            return counts
        counts.update(self.members)
        for cell, count in self.cells.items():
            for name in [cell] if space.kind == "classes" else set(split_labels(cell, space.separator)):
                counts[name] += count
        return counts

    def _detect_kind(self) -> Kind:
        if self._separator is not None or self._lists or self._detect_separator() is not None:
            return "multilabel"
        if self.total and self._numbers == self.total:
            distinct_count = len(self.cells)
            if (self._fractions and distinct_count >= 5) or (distinct_count > 50 and distinct_count > 0.1 * self.total):
                return "number"
        return "classes"

    def _detect_separator(self) -> str | None:
        """Find a separator that splits cells into labels that recur in other cells."""
        for separator in SEPARATORS:
            cells_with_separator = sum(count for cell, count in self.cells.items() if separator in cell)
            parts = [part for cell in self.cells for part in split_labels(cell, separator)]
            if cells_with_separator >= max(0.05 * self.total, 2) and len(parts) >= 1.5 * len(set(parts)):
                return separator
        return None


def read_labels(values: Iterable[Any], *, kind: Kind | None = None, separator: str | None = None) -> LabelSpace:
    """Infer the label space of a column; kind and separator are detected unless they are set."""
    counter = LabelCounter(kind=kind, separator=separator)
    for value in values:
        if not is_missing(value):
            counter.add(value)
    return counter.space()


def is_missing(value: Any) -> bool:
    """Whether a cell is empty; an empty list is not, it means no labels."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and value != value)


def is_valid_text(value: Any) -> bool:
    """Whether a label, or every label of a list, can be written to a file: no NUL, no lone surrogates."""
    if isinstance(value, list | tuple):
        return all(map(is_valid_text, value))
    return not isinstance(value, str) or INVALID_TEXT.search(value) is None


def format_label(value: Any) -> str:
    """Convert a label to a string; values other than strings are written as in JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def parse_number(value: Any) -> float | None:
    """Parse a finite number, also from a string with a decimal point or comma; None for everything else."""
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
    """Parse a list of labels, also from a string in JSON or Python syntax; None for everything else."""
    if isinstance(value, list | tuple | set | frozenset):
        return [format_label(element) for element in value if not is_missing(element)]
    if not isinstance(value, str) or len(value) > MAX_LIST_CHARS:
        return None
    text = value.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # SyntaxWarning of literal_eval
                parsed = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if (
            isinstance(parsed, list)
            and is_valid_text(parsed)
            and not any(isinstance(element, list | dict) for element in parsed)
        ):
            return [format_label(element) for element in parsed if not is_missing(element)]
    return None


def split_labels(value: Any, separator: str | None) -> list[str]:
    """Split a cell into labels."""
    members = parse_label_list(value)
    if members is not None:
        return members
    text = format_label(value)
    parts = text.split(separator) if separator else [text]
    return [part.strip() for part in parts if part.strip()] if separator else [part for part in parts if part.strip()]


def sort_naturally(names: Iterable[str]) -> tuple[str, ...]:
    """Sort numbers by value, then other names in natural order, so that 2 precedes 10 whatever the order of rows."""
    return tuple(
        sorted(
            names, key=lambda name: (parse_number(name) is None, parse_number(name) or 0.0, _natural_key(name), name)
        )
    )


def _natural_key(name: str) -> tuple[Any, ...]:
    parts = re.split(r"(\d{1,18})", name)  # text and digits alternate, so parts with the same index are comparable
    return tuple(int(part) if index % 2 else part for index, part in enumerate(parts))
