"""Questions with options: what a row says, however the options and the right one are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clearhead.data.columns import Columns, format_column
from clearhead.data.examples import TextRow, read_id, read_split, read_text
from clearhead.data.labels import LabelSpace, format_label, is_missing, is_valid_text
from clearhead.data.row_codec import EncodedRow, LengthPolicy, TextEncoder, encode_items
from clearhead.data.sources.source import EMPTY_TEXT, MISSING_LABEL, NOT_A_TEXT, UNKNOWN_LABEL, BadRow, Row, excerpt
from clearhead.errors import InputError
from clearhead.tasks.cells import JSON_OPENERS, parse_cell
from clearhead.tasks.packed import concat_ranges
from clearhead.tasks.ragged import compute_bounds

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

NESTED = "question.choices"
LETTER = re.compile(r"^[A-Za-z]$")
NUMBER = re.compile(r"^[0-9]{1,4}$")
MOST_OPTIONS = 1000
LABELS = ("label", "key", "name")  # of an option that is an object
OPTIONS = "options"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one question, and what they are called where the row says so."""

    texts: tuple[str, ...]
    keys: tuple[str, ...] = ()
    passage: str | None = None
    question: str = ""

    def items(self) -> list[tuple[str, str]]:
        """The two texts that are read for each option: with a passage, the question stands before the option."""
        if self.passage is None:
            return [(self.question, option) for option in self.texts]
        return [(self.passage, f"{self.question} {option}".strip()) for option in self.texts]


def check(row: Row, columns: Columns, space: LabelSpace | None) -> TextRow | BadRow:
    """A question, perhaps a passage before it, at least two options and the right one."""
    row, columns = _flat(row, columns)
    first = read_text(row, columns.text)
    if isinstance(first, BadRow):
        return first
    second: str | BadRow | None = None
    if columns.text_b is not None and not is_missing(row.values.get(columns.text_b)):
        second = read_text(row, columns.text_b)
    if isinstance(second, BadRow):
        return second
    split = read_split(row, columns)
    if isinstance(split, BadRow):
        return split
    found = _options(row, columns)
    if isinstance(found, BadRow):
        return found
    texts, keys = found
    passage, question = (first, second or "") if columns.text_b is not None else (None, first)
    options = Options(texts, keys, passage, question)
    label: Any = None
    if columns.label is not None:
        label = row.values.get(columns.label)
        if is_missing(label) or not is_valid_text(label) or isinstance(label, list | dict):
            return BadRow(row.number, "the label is missing", excerpt(first), row.line, MISSING_LABEL)
        label = format_label(label).strip()
        if space is not None:
            place = place_of(label, options, space.scheme or "0")
            if place is None:
                reason = f"the label {label[:40]!r} is none of the {len(texts)} options"
                return BadRow(row.number, reason, excerpt(first), row.line, UNKNOWN_LABEL)
            label = place
        else:
            label = (label, options)
    whole = first if second is None else f"{first}\n{second}"
    return TextRow(row.number, whole, " | ".join(texts), label, read_id(row, columns), split, row.line, options)


def is_nested(value: Any) -> bool:
    """Whether a question holds its own options, as ARC and OpenBookQA were published."""
    return isinstance(value, dict) and isinstance(value.get("stem"), str) and isinstance(value.get("choices"), list)


def _flat(row: Row, columns: Columns) -> tuple[Row, Columns]:
    """A nested question as a question and its options."""
    value = row.values.get(columns.text)
    if not is_nested(value):
        return row, columns
    assert isinstance(value, dict)
    values = row.values | {columns.text: value["stem"], NESTED: value["choices"]}
    return Row(row.number, values, row.line), replace(columns, options=(NESTED,))


def _options(row: Row, columns: Columns) -> tuple[tuple[str, ...], tuple[str, ...]] | BadRow:
    """The options out of a column each, or of one column that holds a list; empty cells are no options."""
    keys: Any = []
    if len(columns.options) > 1:
        cells = [row.values.get(name) for name in columns.options]
        filled = [not is_missing(cell) for cell in cells]
        if False in filled and any(filled[filled.index(False) :]):
            return BadRow(row.number, "an option before the last one is empty", "", row.line, EMPTY_TEXT)
        values: Any = [cell for cell, full in zip(cells, filled, strict=True) if full]
    else:
        listed = row.values.get(columns.options[0])
        if isinstance(listed, str):
            found = parse_cell(listed) if listed.lstrip()[:1] in JSON_OPENERS else None
            listed = found if isinstance(found, list | dict) else listed.split("|")
        if isinstance(listed, dict):  # {"text": [...], "label": [...]}
            keys = listed.get("label", listed.get("labels", []))
            listed = listed.get("text", listed.get("texts"))
        values = listed
        if not isinstance(values, list | tuple):
            return BadRow(
                row.number, f"{format_column(columns.options[0])} is no list of options", "", row.line, NOT_A_TEXT
            )
        if values and all(isinstance(one, dict) for one in values):
            keys = [next((one[name] for name in LABELS if name in one), None) for one in values]
            values = [one.get("text", one.get("option")) for one in values]
    odd = any(is_missing(value) or not isinstance(value, str | int | float) for value in values)
    texts = tuple(format_label(value).strip() for value in values)
    if odd or not is_valid_text(texts):
        return BadRow(row.number, "an option is empty or no text", excerpt(values), row.line, EMPTY_TEXT)
    if not 2 <= len(texts) <= MOST_OPTIONS:
        reason = f"{len(texts)} options, expected from 2 to {MOST_OPTIONS:,}"
        return BadRow(row.number, reason, excerpt(values), row.line, EMPTY_TEXT)
    return texts, _keys(keys, len(texts))


def _keys(keys: Any, count: int) -> tuple[str, ...]:
    """What options are called, where each has a name of its own."""
    if not isinstance(keys, list | tuple) or any(not isinstance(key, str | int) or is_missing(key) for key in keys):
        return ()
    named = tuple(format_label(key).strip() for key in keys)
    return named if len(named) == len(set(named)) == count and is_valid_text(named) else ()


def place_of(label: str, options: Options, scheme: str) -> int | None:
    """Which option a label means."""
    count = len(options.texts)
    if options.keys and label in options.keys:
        return options.keys.index(label)
    if scheme == "text":
        return options.texts.index(label) if label in options.texts else None
    if scheme == "A":
        place = ord(label.upper()) - ord("A") if LETTER.match(label) else -1
    else:
        place = int(label) - int(scheme) if NUMBER.match(label) else -1
    return place if 0 <= place < count else None


def name_of(place: int, options: Options, scheme: str | None) -> str:
    """What an option is called in the way the labels are written."""
    if options.keys:
        return options.keys[place]
    if scheme == "text":
        return options.texts[place]
    return chr(ord("A") + place) if scheme == "A" and place < 26 else str(place + (1 if scheme == "1" else 0))


class OptionCounter:
    """Finds out how the right option is written: counted from 0 or from 1, as a letter, or as its text."""

    def __init__(self) -> None:
        self.total = 0
        self._fits = dict.fromkeys(("0", "1", "A", "text"), 0)
        self._zero = False
        self._most = 0

    def add(self, said: tuple[str, Options]) -> None:
        """The label and the options of one more row."""
        label, options = said
        self.total += 1
        self._most = max(self._most, len(options.texts))
        self._zero |= label == "0"
        bare = replace(options, keys=())
        named = place_of(label, options, "0") if label in options.keys else None
        for scheme in self._fits:
            place = place_of(label, bare, scheme)
            self._fits[scheme] += place is not None and named in (None, place)

    def space(self) -> LabelSpace:
        """The way that fits most rows; of numbers, from 1 only where no 0 occurs and one too high would be needed."""
        fits = dict(self._fits)
        if self._zero:
            fits["1"] = -1
        order = ("text", "0", "1", "A")  # options may be numbers themselves: what is among them always is one of them
        scheme = max(order, key=lambda name: (fits[name], -order.index(name)))
        return LabelSpace(names=tuple(str(place) for place in range(self._most)), kind="options", scheme=scheme)


def pieces(rows: Sequence[TextRow], tokenizer: TextEncoder, fit: LengthPolicy) -> Iterable[EncodedRow]:
    """A window, or several, for each option of each row."""
    import numpy as np

    items = [item for row in rows for item in row.extra.items()]
    made = iter(encode_items(items, tokenizer, fit))
    for row in rows:
        own = [next(made) for _ in row.extra.texts]
        yield EncodedRow([window for one in own for window in one], np.array([len(one) for one in own], np.int32))


@dataclass(frozen=True, kw_only=True)
class OptionAnnotations:
    """Of every row its options, and of every option its windows."""

    window_counts: Array  # (options,) how many windows each has
    bounds: Array  # (rows + 1,) where the options of each row lie

    @property
    def counts(self) -> Array:
        """(rows,) how many options each row has."""
        counts: Array = self.bounds[1:] - self.bounds[:-1]
        return counts

    def pack(self, rows: Array, windows: Array, begins: Array) -> dict[str, Array]:  # noqa: ARG002
        """Of some rows: the option of each window, and the row of each option."""
        import numpy as np

        counts = self.counts[rows]
        chosen = np.repeat(self.bounds[:-1][rows], counts) + concat_ranges(counts)
        return {
            "options": np.repeat(np.arange(len(chosen)), self.window_counts[chosen]),
            "option_rows": np.repeat(np.arange(len(rows)), counts),
        }


def marks(found: Sequence[Array], truths: Sequence[Any] | None, fit: LengthPolicy) -> OptionAnnotations:
    """Of all rows."""
    import numpy as np

    return OptionAnnotations(window_counts=np.concatenate(found), bounds=compute_bounds([len(one) for one in found]))


def label_array(found: Sequence[int], space: LabelSpace) -> Array:
    import numpy as np

    return np.array(found, np.int32)


def row_of_texts(texts: Sequence[str], reference: str, second: bool | None) -> dict[str, Any]:
    """A question and its options."""
    if len(texts) < 3:
        got = len(texts)
        raise InputError(f"{reference} chooses among options: give a question and at least two options, got {got}.")
    if second:
        raise InputError(f"{reference} reads a passage, a question and options: give them as rows of a file.")
    return {"text": texts[0], OPTIONS: list(texts[1:])}


def label_in_cell(row: TextRow, space: LabelSpace | None) -> str | None:
    """Which option is right, counted from 1."""
    if space is None:
        return None
    place = place_of(row.label[0], row.extra, space.scheme or "0")
    return None if place is None else f"option {place + 1}"


def names_in_view(columns: Columns) -> Columns:
    """Options are one text."""
    one = columns.options[0] if len(columns.options) == 1 else OPTIONS
    return replace(columns, text_b=one, options=())
