"""Rows of the tag task: words with tags or texts with spans, and tags as label ids."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from clearhead.data.columns import Columns, format_column
from clearhead.data.examples import MAX_CELL_CHARS, TextRow, read_id, read_split, read_text
from clearhead.data.labels import LabelSpace, format_label, is_missing, is_valid_text
from clearhead.data.sources.source import (
    EMPTY_TEXT,
    HALF_CHARACTER,
    MISSING_LABEL,
    TOO_LONG,
    UNKNOWN_LABEL,
    BadRow,
    Row,
    excerpt,
)
from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.html import pluralize
from clearhead.tasks.cells import JSON_OPENERS, MISALIGNED_SPAN, parse_cell
from clearhead.text.words import find_word_spans

START_KEYS = ("start", "begin", "start_offset", "start_char", "start_index")
END_KEYS = ("end", "stop", "end_offset", "end_char", "end_index")
TYPE_KEYS = ("label", "labels", "type", "entity", "entity_group", "tag", "entity_type", "class")
MAX_TAG_LENGTH = 200  # characters
WORD_LIST = re.compile(r"\s*\[\s*[\"']")  # a list of words in a cell; a text can start with [1]

Span = tuple[int, int, str]  # first word, one past the last, type


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text: their offsets, and the words if they were given as a list."""

    offsets: list[tuple[int, int]]
    tokens: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags or spans of a row, before the label space is known."""

    tags: list[str] | None = None  # one per word
    spans: tuple[Span, ...] = ()


def check_row(row: Row, columns: Columns, space: LabelSpace | None) -> TextRow | BadRow:
    """Read words with tags, or a text with spans; spans must start and end at word boundaries."""
    # models trained on listed words split texts the same way; models trained on spans split at punctuation
    keep_inner_punctuation = columns.label is None and space is not None and space.scheme != "spans"
    text_and_words = _read_words(row, columns, keep_inner_punctuation=keep_inner_punctuation)
    if isinstance(text_and_words, BadRow):
        return text_and_words
    text, words = text_and_words
    split = read_split(row, columns)
    if isinstance(split, BadRow):
        return split
    label: Any = None
    if columns.label is not None:
        label = _read_tags(row, columns.label, text, words)
        if space is not None and not isinstance(label, BadRow):
            label = _encode_tags(row, label, len(words.offsets), space)
        if isinstance(label, BadRow):
            return label
    return TextRow(row.number, text, None, label, read_id(row, columns), split, row.line, words)


def _read_words(row: Row, columns: Columns, *, keep_inner_punctuation: bool) -> tuple[str, Words] | BadRow:
    value = row.values.get(columns.text)
    tokens = _parse_word_list(value)
    if tokens is None:
        text = read_text(row, columns.text)
        if isinstance(text, BadRow):
            return text
        cell = None if columns.label is None else row.values.get(columns.label)
        if not isinstance(cell, str) or cell.lstrip()[:1] in JSON_OPENERS or len(cell.split()) != len(text.split()):
            return text, Words(find_word_spans(text, keep_inner_punctuation=keep_inner_punctuation))
        tokens = text.split()
    if not tokens or any(not isinstance(word, str) or not word.strip() for word in tokens):
        return BadRow(
            row.number, f"{format_column(columns.text)} has no words or an empty word", "", row.line, EMPTY_TEXT
        )
    if not is_valid_text(tokens):
        return BadRow(row.number, "a word contains a NUL byte or a lone surrogate", "", row.line, HALF_CHARACTER)
    start, offsets = 0, []
    for word in tokens:
        offsets.append((start, start + len(word)))
        start += len(word) + 1
    if start > MAX_CELL_CHARS:
        reason = f"{format_column(columns.text)} has {start:,} characters"
        return BadRow(row.number, reason, excerpt(tokens[0]), row.line, TOO_LONG)
    return " ".join(tokens), Words(offsets, tokens)


def _parse_word_list(value: Any) -> list[Any] | None:
    """Parse words given as a list or as a list in a cell; None if the cell is a text."""
    if isinstance(value, str):
        value = parse_cell(value) if WORD_LIST.match(value) else None
        return value if isinstance(value, list) and all(isinstance(word, str) for word in value) else None
    if not isinstance(value, list | tuple):
        return None
    return [format_label(word) if isinstance(word, int | float) else word for word in value]


def _read_tags(row: Row, column: str, text: str, words: Words) -> Tags | BadRow:
    """Read tags of listed words, or spans of a text."""
    value = row.values.get(column)
    if isinstance(value, str) and value.lstrip()[:1] in JSON_OPENERS:
        value = parse_cell(value)
    if words.tokens is not None:
        cells = value.split() if isinstance(value, str) else value
        if is_missing(value) or not isinstance(cells, list | tuple):
            return BadRow(row.number, f"{format_column(column)} has no tags", excerpt(text), row.line, MISSING_LABEL)
        if any(isinstance(tag, dict | list | tuple) or is_missing(tag) for tag in cells):
            return BadRow(row.number, "a tag is empty or not a single word", excerpt(cells), row.line, UNKNOWN_LABEL)
        tags = [format_label(tag).strip() for tag in cells]
        if len(tags) != len(words.tokens):
            return _reject_count(row, len(words.tokens), len(tags), text)
        if not is_valid_text(tags) or any(len(tag) > MAX_TAG_LENGTH or any(map(str.isspace, tag)) for tag in tags):
            return BadRow(row.number, "a tag is empty or not a single word", excerpt(tags), row.line, UNKNOWN_LABEL)
        return Tags(tags=tags)
    if isinstance(value, str) and not is_missing(value):
        return _reject_count(row, len(text.split()), len(value.split()), text)
    spans = value.get("entities") if isinstance(value, dict) else value  # the format of spaCy
    if not isinstance(spans, list | tuple):
        reason = f"{format_column(column)} has no list of spans (start, end, label)"
        return BadRow(row.number, reason, excerpt(text), row.line, MISSING_LABEL)
    return _read_spans(row, spans, text, words)


def _reject_count(row: Row, word_count: int, tag_count: int, text: str) -> BadRow:
    counts = f"{pluralize(word_count, 'word')} and {pluralize(tag_count, 'tag')}"
    return BadRow(row.number, counts, excerpt(text), row.line, UNKNOWN_LABEL)


def _read_spans(row: Row, cells: Iterable[Any], text: str, words: Words) -> Tags | BadRow:
    words_by_start = {start: word for word, (start, _) in enumerate(words.offsets)}
    words_by_end = {end: word + 1 for word, (_, end) in enumerate(words.offsets)}
    spans: list[Span] = []
    for cell in cells:
        parsed_span = parse_span(cell)
        if parsed_span is None:
            reason = "a span needs start and end (integers) and a label"
            return BadRow(row.number, reason, excerpt(cell), row.line, MISALIGNED_SPAN)
        start, end, kind = parsed_span
        if not 0 <= start < end <= len(text):
            offsets = f"{to_printable(start, 20)} to {to_printable(end, 20)}"
            reason = f"the span {offsets} ({kind}) exceeds the text of {len(text):,} characters"
            return BadRow(row.number, reason, "", row.line, MISALIGNED_SPAN)
        if start not in words_by_start or end not in words_by_end:
            boundary = "begins" if start not in words_by_start else "ends"
            reason = (
                f"the span {start} to {end} ({kind}, {text[start:end][:40]!r}) {boundary} inside a word or at a space"
            )
            context = text[max(start - 12, 0) : end + 12]
            return BadRow(row.number, reason, excerpt(context), row.line, MISALIGNED_SPAN)
        spans.append((words_by_start[start], words_by_end[end], kind))
    spans.sort()
    for (_, previous_end, kind), (next_start, _, next_kind) in pairwise(spans):
        if next_start < previous_end:
            reason = f"the spans {kind} and {next_kind} overlap"
            return BadRow(row.number, reason, excerpt(text), row.line, MISALIGNED_SPAN)
    return Tags(spans=tuple(spans))


def parse_span(cell: Any) -> tuple[int, int, str] | None:
    """Parse start, end and label of a span given as an object or a list of three; None if it is neither."""
    if isinstance(cell, dict):
        parts = [
            next((cell[name] for name in names if name in cell), None) for names in (START_KEYS, END_KEYS, TYPE_KEYS)
        ]
    elif isinstance(cell, list | tuple) and len(cell) == 3:
        parts = list(cell)
    else:
        return None
    start, end, kind = parts
    if isinstance(kind, list) and len(kind) == 1:
        kind = kind[0]
    if not isinstance(start, int) or not isinstance(end, int) or isinstance(start, bool) or isinstance(end, bool):
        return None
    if not isinstance(kind, str) or not kind.strip() or len(kind) > MAX_TAG_LENGTH or not is_valid_text(kind):
        return None
    return start, end, "_".join(kind.split())


def _encode_tags(row: Row, row_tags: Tags, count: int, space: LabelSpace) -> list[int] | BadRow:
    """Encode the tags of all words; unknown tags make a bad row."""
    tags = expand_tags(row_tags, count, space)
    unknown = [tag for tag in tags if tag not in space.ids]
    if unknown:
        listed = ", ".join(space.names[:8]) + (", ..." if len(space) > 8 else "")
        return BadRow(row.number, f"tag {unknown[0]!r} is not one of {listed}", "", row.line, UNKNOWN_LABEL)
    return [space.ids[tag] for tag in tags]


def expand_tags(row_tags: Tags, count: int, space: LabelSpace) -> list[str]:
    """Expand spans to one tag per word in the scheme of the label space; plain tags are unchanged."""
    from clearhead.metrics.entities import extract_entities

    if space.scheme == "plain" and row_tags.tags is not None:
        return row_tags.tags
    tags = ["O"] * count
    for first, last, kind in row_tags.spans if row_tags.tags is None else extract_entities(row_tags.tags):
        tags[first:last] = _tag_entity(kind, last - first, space)
    return tags


def _tag_entity(kind: str, word_count: int, space: LabelSpace) -> list[str]:
    """Return the tags of an entity; foreign checkpoints can use only I-, or BILOU and IOBES prefixes."""

    def tag(*letters: str) -> str:
        candidates = (f"{letter}-{kind}" for letter in letters)
        return next((name for name in candidates if name in space.ids), f"B-{kind}")

    if word_count == 1:
        return [tag("U", "S", "B", "I")]
    return [tag("B", "I"), *[tag("I")] * (word_count - 2), tag("L", "E", "I")]


class TagCounter:
    """Collects the tags and detects their scheme."""

    def __init__(self) -> None:
        self.total = 0
        self._tags: dict[str, None] = {}
        self._types: dict[str, None] = {}
        self._spans = False

    def add(self, row_tags: Tags) -> None:
        """Add the tags of a row."""
        self.total += 1
        if row_tags.tags is None:
            self._spans = True
            self._types |= dict.fromkeys(kind for _, _, kind in row_tags.spans)
        else:
            self._tags |= dict.fromkeys(row_tags.tags)

    def space(self) -> LabelSpace:
        """Return all tags in a fixed order: O, then B- and I- of each type."""
        from clearhead.metrics.entities import detect_scheme, extract_entities

        scheme = "spans"
        types = set(self._types)
        if self._tags:
            try:
                scheme = detect_scheme([list(self._tags)])
            except InputError as error:
                raise InputError(f"Invalid tags: {error}") from None
            if scheme == "plain":
                return LabelSpace(names=tuple(sorted(self._tags)), kind="tags", scheme="plain")
            types |= {kind for tag in self._tags for _, _, kind in extract_entities([tag])}
        names = ("O", *(f"{prefix}-{kind}" for kind in sorted(types) for prefix in "BI"))
        return LabelSpace(names=names, kind="tags", scheme="spans" if scheme == "spans" else "bio")
