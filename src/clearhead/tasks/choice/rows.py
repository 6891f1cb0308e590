"""Rows of the choice task: questions with options, in any of the usual notations."""

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

NESTED_OPTIONS = "question.choices"
LETTER_LABEL = re.compile(r"^[A-Za-z]$")
NUMBER_LABEL = re.compile(r"^[0-9]{1,4}$")
MAX_OPTIONS = 1000
KEY_FIELDS = ("label", "key", "name")  # fields that name an option given as an object
OPTIONS_COLUMN = "options"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a question, and their keys if the row names them."""

    texts: tuple[str, ...]
    keys: tuple[str, ...] = ()
    passage: str | None = None
    question: str = ""

    def items(self) -> list[tuple[str, str]]:
        """The two texts encoded for each option; with a passage, question and option are joined."""
        if self.passage is None:
            return [(self.question, option) for option in self.texts]
        return [(self.passage, f"{self.question} {option}".strip()) for option in self.texts]


def check_row(row: Row, columns: Columns, space: LabelSpace | None) -> TextRow | BadRow:
    """Read a question, an optional passage, at least two options and the correct one."""
    row, columns = _flatten_nested(row, columns)
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
    parsed_options = _read_options(row, columns)
    if isinstance(parsed_options, BadRow):
        return parsed_options
    texts, keys = parsed_options
    passage, question = (first, second or "") if columns.text_b is not None else (None, first)
    options = Options(texts, keys, passage, question)
    label: Any = None
    if columns.label is not None:
        label = row.values.get(columns.label)
        if is_missing(label) or not is_valid_text(label) or isinstance(label, list | dict):
            return BadRow(row.number, "the label is missing", excerpt(first), row.line, MISSING_LABEL)
        label = format_label(label).strip()
        if space is not None:
            option = find_option(label, options, space.scheme or "0")
            if option is None:
                reason = f"the label {label[:40]!r} is not one of the {len(texts)} options"
                return BadRow(row.number, reason, excerpt(first), row.line, UNKNOWN_LABEL)
            label = option
        else:
            label = (label, options)
    text = first if second is None else f"{first}\n{second}"
    return TextRow(row.number, text, " | ".join(texts), label, read_id(row, columns), split, row.line, options)


def is_nested(value: Any) -> bool:
    """Whether the question contains its options, as in the original files of ARC and OpenBookQA."""
    return isinstance(value, dict) and isinstance(value.get("stem"), str) and isinstance(value.get("choices"), list)


def _flatten_nested(row: Row, columns: Columns) -> tuple[Row, Columns]:
    """Split a nested question into question and options."""
    question = row.values.get(columns.text)
    if not is_nested(question):
        return row, columns
    assert isinstance(question, dict)
    values = row.values | {columns.text: question["stem"], NESTED_OPTIONS: question["choices"]}
    return Row(row.number, values, row.line), replace(columns, options=(NESTED_OPTIONS,))


def _read_options(row: Row, columns: Columns) -> tuple[tuple[str, ...], tuple[str, ...]] | BadRow:
    """Read options from one column each, or from one column with a list; trailing empty cells are ignored."""
    keys: Any = []
    if len(columns.options) > 1:
        cells = [row.values.get(name) for name in columns.options]
        filled = [not is_missing(cell) for cell in cells]
        if False in filled and any(filled[filled.index(False) :]):
            return BadRow(row.number, "an option before the last one is empty", "", row.line, EMPTY_TEXT)
        values: Any = [cell for cell, is_filled in zip(cells, filled, strict=True) if is_filled]
    else:
        listed = row.values.get(columns.options[0])
        if isinstance(listed, str):
            parsed_cell = parse_cell(listed) if listed.lstrip()[:1] in JSON_OPENERS else None
            listed = parsed_cell if isinstance(parsed_cell, list | dict) else listed.split("|")
        if isinstance(listed, dict):  # {"text": [...], "label": [...]}
            keys = listed.get("label", listed.get("labels", []))
            listed = listed.get("text", listed.get("texts"))
        values = listed
        if not isinstance(values, list | tuple):
            return BadRow(
                row.number, f"{format_column(columns.options[0])} is not a list of options", "", row.line, NOT_A_TEXT
            )
        if values and all(isinstance(option, dict) for option in values):
            keys = [next((option[name] for name in KEY_FIELDS if name in option), None) for option in values]
            values = [option.get("text", option.get("option")) for option in values]
    has_invalid = any(is_missing(value) or not isinstance(value, str | int | float) for value in values)
    texts = tuple(format_label(value).strip() for value in values)
    if has_invalid or not is_valid_text(texts):
        return BadRow(row.number, "an option is empty or not text", excerpt(values), row.line, EMPTY_TEXT)
    if not 2 <= len(texts) <= MAX_OPTIONS:
        reason = f"{len(texts)} options, expected 2 to {MAX_OPTIONS:,}"
        return BadRow(row.number, reason, excerpt(values), row.line, EMPTY_TEXT)
    return texts, _read_unique_keys(keys, len(texts))


def _read_unique_keys(keys: Any, count: int) -> tuple[str, ...]:
    """Return the names of the options if all are present and unique."""
    if not isinstance(keys, list | tuple) or any(not isinstance(key, str | int) or is_missing(key) for key in keys):
        return ()
    names = tuple(format_label(key).strip() for key in keys)
    return names if len(names) == len(set(names)) == count and is_valid_text(names) else ()


def find_option(label: str, options: Options, scheme: str) -> int | None:
    """Return the index of the option that a label refers to."""
    count = len(options.texts)
    if options.keys and label in options.keys:
        return options.keys.index(label)
    if scheme == "text":
        return options.texts.index(label) if label in options.texts else None
    if scheme == "A":
        index = ord(label.upper()) - ord("A") if LETTER_LABEL.match(label) else -1
    else:
        index = int(label) - int(scheme) if NUMBER_LABEL.match(label) else -1
    return index if 0 <= index < count else None


def name_option(index: int, options: Options, scheme: str | None) -> str:
    """Return the name of an option in the notation of the labels."""
    if options.keys:
        return options.keys[index]
    if scheme == "text":
        return options.texts[index]
    return chr(ord("A") + index) if scheme == "A" and index < 26 else str(index + (1 if scheme == "1" else 0))


class OptionCounter:
    """Detects the notation of the labels: index from 0 or 1, letter, or option text."""

    def __init__(self) -> None:
        self.total = 0
        self._fits = dict.fromkeys(("0", "1", "A", "text"), 0)
        self._has_zero = False
        self._max_options = 0

    def add(self, labeled: tuple[str, Options]) -> None:
        """Add the label and options of a row."""
        label, options = labeled
        self.total += 1
        self._max_options = max(self._max_options, len(options.texts))
        self._has_zero |= label == "0"
        unnamed_options = replace(options, keys=())
        named_index = find_option(label, options, "0") if label in options.keys else None
        for scheme in self._fits:
            index = find_option(label, unnamed_options, scheme)
            self._fits[scheme] += index is not None and named_index in (None, index)

    def space(self) -> LabelSpace:
        """Return the notation that fits most rows; indices start at 1 only if 0 never occurs and 1 fits more rows."""
        fits = dict(self._fits)
        if self._has_zero:
            fits["1"] = -1
        # options can be numbers: a label equal to an option text refers to that option
        preference = (
            "text",
            "0",
            "1",
            "A",
        )
        scheme = max(preference, key=lambda name: (fits[name], -preference.index(name)))
        return LabelSpace(names=tuple(str(index) for index in range(self._max_options)), kind="options", scheme=scheme)


def encode_options(rows: Sequence[TextRow], tokenizer: TextEncoder, fit: LengthPolicy) -> Iterable[EncodedRow]:
    """Encode each option of each row as one or more windows."""
    import numpy as np

    items = [item for row in rows for item in row.extra.items()]
    encoded = iter(encode_items(items, tokenizer, fit))
    for row in rows:
        option_windows = [next(encoded) for _ in row.extra.texts]
        yield EncodedRow(
            [window for windows in option_windows for window in windows],
            np.array([len(windows) for windows in option_windows], np.int32),
        )


@dataclass(frozen=True, kw_only=True)
class OptionAnnotations:
    """The options of each row and the number of windows of each option."""

    window_counts: Array  # (options,)
    bounds: Array  # (rows + 1,) bounds of the options of each row

    @property
    def counts(self) -> Array:
        """(rows,) the number of options of each row."""
        counts: Array = self.bounds[1:] - self.bounds[:-1]
        return counts

    def pack(self, rows: Array, windows: Array, row_starts: Array) -> dict[str, Array]:  # noqa: ARG002
        """Pack the annotations of rows: the option of each window, and the row of each option."""
        import numpy as np

        counts = self.counts[rows]
        option_indices = np.repeat(self.bounds[:-1][rows], counts) + concat_ranges(counts)
        return {
            "options": np.repeat(np.arange(len(option_indices)), self.window_counts[option_indices]),
            "option_rows": np.repeat(np.arange(len(rows)), counts),
        }


def annotate_options(
    window_counts: Sequence[Array], truths: Sequence[Any] | None, fit: LengthPolicy
) -> OptionAnnotations:
    """Build the annotations of all rows."""
    import numpy as np

    return OptionAnnotations(
        window_counts=np.concatenate(window_counts), bounds=compute_bounds([len(counts) for counts in window_counts])
    )


def to_label_array(labels: Sequence[int], space: LabelSpace) -> Array:
    import numpy as np

    return np.array(labels, np.int32)


def row_from_texts(texts: Sequence[str], reference: str, has_two_texts: bool | None) -> dict[str, Any]:
    """Build a row from a question and its options."""
    if len(texts) < 3:
        count = len(texts)
        raise InputError(f"{reference} chooses among options; pass a question and at least two options, got {count}.")
    if has_two_texts:
        raise InputError(f"{reference} reads a passage, a question and options; pass them as rows of a file.")
    return {"text": texts[0], OPTIONS_COLUMN: list(texts[1:])}


def make_plain_label(row: TextRow, space: LabelSpace | None) -> str | None:
    """Name the correct option, counted from 1."""
    if space is None:
        return None
    index = find_option(row.label[0], row.extra, space.scheme or "0")
    return None if index is None else f"option {index + 1}"


def make_plain_columns(columns: Columns) -> Columns:
    """Name the columns of the plain view; the options become the second text."""
    options_column = columns.options[0] if len(columns.options) == 1 else OPTIONS_COLUMN
    return replace(columns, text_b=options_column, options=())
