"""Texts with tags on their words: what a row says, which tokens stand for which word, and the tags as numbers."""

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
from clearhead.tasks.cells import JSON_OPENERS, MISALIGNED_SPAN, parse_cell
from clearhead.text.words import find_word_spans

STARTS = ("start", "begin", "start_offset", "start_char", "start_index")
ENDS = ("end", "stop", "end_offset", "end_char", "end_index")
TYPES = ("label", "labels", "type", "entity", "entity_group", "tag", "entity_type", "class")
MOST_TAG = 200  # characters
LISTED = re.compile(r"\s*\[\s*[\"']")  # a list of words in a cell; a text may well begin with [1]

Span = tuple[int, int, str]  # the first word, one past the last, and the type


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text: where they stand in it, and the list itself where a list came."""

    offsets: list[tuple[int, int]]
    tokens: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Tags:
    """What a row says of its words, before it is known which tags there are."""

    tags: list[str] | None = None  # one for each word
    spans: tuple[Span, ...] = ()


def check(row: Row, columns: Columns, space: LabelSpace | None) -> TextRow | BadRow:
    """Words with a tag each, or a text with spans; every span must begin and end where words do."""
    # a model that learned from lists of words cuts a text into such words; spans may begin at any
    listed = columns.label is None and space is not None and space.scheme != "spans"
    found = _words(row, columns, joined=listed)
    if isinstance(found, BadRow):
        return found
    text, words = found
    split = read_split(row, columns)
    if isinstance(split, BadRow):
        return split
    label: Any = None
    if columns.label is not None:
        label = _tags(row, columns.label, text, words)
        if space is not None and not isinstance(label, BadRow):
            label = _numbers(row, label, len(words.offsets), space)
        if isinstance(label, BadRow):
            return label
    return TextRow(row.number, text, None, label, read_id(row, columns), split, row.line, words)


def _words(row: Row, columns: Columns, *, joined: bool) -> tuple[str, Words] | BadRow:
    value = row.values.get(columns.text)
    tokens = _word_list(value)
    if tokens is None:
        text = read_text(row, columns.text)
        if isinstance(text, BadRow):
            return text
        cell = None if columns.label is None else row.values.get(columns.label)
        if not isinstance(cell, str) or cell.lstrip()[:1] in JSON_OPENERS or len(cell.split()) != len(text.split()):
            return text, Words(find_word_spans(text, keep_inner_punctuation=joined))
        tokens = text.split()
    if not tokens or any(not isinstance(word, str) or not word.strip() for word in tokens):
        return BadRow(
            row.number, f"{format_column(columns.text)} holds no words, or an empty one", "", row.line, EMPTY_TEXT
        )
    if not is_valid_text(tokens):
        return BadRow(row.number, "a word holds a NUL byte or half a character", "", row.line, HALF_CHARACTER)
    begin, borders = 0, []
    for word in tokens:
        borders.append((begin, begin + len(word)))
        begin += len(word) + 1
    if begin > MAX_CELL_CHARS:
        reason = f"{format_column(columns.text)} has {begin:,} characters"
        return BadRow(row.number, reason, excerpt(tokens[0]), row.line, TOO_LONG)
    return " ".join(tokens), Words(borders, tokens)


def _word_list(value: Any) -> list[Any] | None:
    """Words that came as a list, or as the text of one; None: it is a text."""
    if isinstance(value, str):
        value = parse_cell(value) if LISTED.match(value) else None
        return value if isinstance(value, list) and all(isinstance(word, str) for word in value) else None
    if not isinstance(value, list | tuple):
        return None
    return [format_label(word) if isinstance(word, int | float) else word for word in value]


def _tags(row: Row, column: str, text: str, words: Words) -> Tags | BadRow:
    """Tags of words that came as a list, spans of a text that came whole."""
    value = row.values.get(column)
    if isinstance(value, str) and value.lstrip()[:1] in JSON_OPENERS:
        value = parse_cell(value)
    if words.tokens is not None:
        cells = value.split() if isinstance(value, str) else value
        if is_missing(value) or not isinstance(cells, list | tuple):
            return BadRow(row.number, f"{format_column(column)} has no tags", excerpt(text), row.line, MISSING_LABEL)
        if any(isinstance(tag, dict | list | tuple) or is_missing(tag) for tag in cells):
            return BadRow(row.number, "a tag is empty or no plain word", excerpt(cells), row.line, UNKNOWN_LABEL)
        tags = [format_label(tag).strip() for tag in cells]
        if len(tags) != len(words.tokens):
            return _counted(row, len(words.tokens), len(tags), text)
        if not is_valid_text(tags) or any(len(tag) > MOST_TAG or any(map(str.isspace, tag)) for tag in tags):
            return BadRow(row.number, "a tag is empty or no plain word", excerpt(tags), row.line, UNKNOWN_LABEL)
        return Tags(tags=tags)
    if isinstance(value, str) and not is_missing(value):
        return _counted(row, len(text.split()), len(value.split()), text)
    listed = value.get("entities") if isinstance(value, dict) else value  # as spaCy nests them
    if not isinstance(listed, list | tuple):
        reason = f"{format_column(column)} has no list of spans (start, end, label)"
        return BadRow(row.number, reason, excerpt(text), row.line, MISSING_LABEL)
    return _spans(row, listed, text, words)


def _counted(row: Row, words: int, tags: int, text: str) -> BadRow:
    return BadRow(row.number, f"{words:,} words and {tags:,} tags", excerpt(text), row.line, UNKNOWN_LABEL)


def _spans(row: Row, listed: Iterable[Any], text: str, words: Words) -> Tags | BadRow:
    begins = {begin: place for place, (begin, _) in enumerate(words.offsets)}
    ends = {end: place + 1 for place, (_, end) in enumerate(words.offsets)}
    made: list[Span] = []
    for one in listed:
        found = span_parts(one)
        if found is None:
            reason = "a span is not start, end and label"
            return BadRow(row.number, reason, excerpt(one), row.line, MISALIGNED_SPAN)
        start, end, kind = found
        if not 0 <= start < end <= len(text):
            place = f"{to_printable(start, 20)} to {to_printable(end, 20)}"
            reason = f"the span {place} ({kind}) is outside the text of {len(text):,} characters"
            return BadRow(row.number, reason, "", row.line, MISALIGNED_SPAN)
        if start not in begins or end not in ends:
            which = "begins" if start not in begins else "ends"
            said = f"the span {start} to {end} ({kind}, {text[start:end][:40]!r}) {which} inside a word or at a space"
            around = text[max(start - 12, 0) : end + 12]
            return BadRow(row.number, said, excerpt(around), row.line, MISALIGNED_SPAN)
        made.append((begins[start], ends[end], kind))
    made.sort()
    for (_, before, one), (begin, _, two) in pairwise(made):
        if begin < before:
            reason = f"the spans {one} and {two} overlap"
            return BadRow(row.number, reason, excerpt(text), row.line, MISALIGNED_SPAN)
    return Tags(spans=tuple(made))


def span_parts(one: Any) -> tuple[int, int, str] | None:
    """start, end and label of a span, as an object or as a list of three."""
    if isinstance(one, dict):
        parts = [next((one[name] for name in names if name in one), None) for names in (STARTS, ENDS, TYPES)]
    elif isinstance(one, list | tuple) and len(one) == 3:
        parts = list(one)
    else:
        return None
    start, end, kind = parts
    if isinstance(kind, list) and len(kind) == 1:
        kind = kind[0]
    if not isinstance(start, int) or not isinstance(end, int) or isinstance(start, bool) or isinstance(end, bool):
        return None
    if not isinstance(kind, str) or not kind.strip() or len(kind) > MOST_TAG or not is_valid_text(kind):
        return None
    return start, end, "_".join(kind.split())


def _numbers(row: Row, said: Tags, count: int, space: LabelSpace) -> list[int] | BadRow:
    """A number for each word; a tag that training did not have is said."""
    tags = word_tags(said, count, space)
    unknown = [tag for tag in tags if tag not in space.ids]
    if unknown:
        listed = ", ".join(space.names[:8]) + (", ..." if len(space) > 8 else "")
        return BadRow(row.number, f"tag {unknown[0]!r} is none of {listed}", "", row.line, UNKNOWN_LABEL)
    return [space.ids[tag] for tag in tags]


def word_tags(said: Tags, count: int, space: LabelSpace) -> list[str]:
    """One tag for each word, as the space writes them: plain ones as they are, entities as B- and I-, or as BILOU."""
    from clearhead.metrics.entities import extract_entities

    if space.scheme == "plain" and said.tags is not None:
        return said.tags
    made = ["O"] * count
    for first, last, kind in said.spans if said.tags is None else extract_entities(said.tags):
        made[first:last] = _marked(kind, last - first, space)
    return made


def _marked(kind: str, words: int, space: LabelSpace) -> list[str]:
    """The tags of an entity; a model of others may know I- alone, or letters for the end and for single words."""

    def tag(*letters: str) -> str:
        known = (f"{letter}-{kind}" for letter in letters)
        return next((name for name in known if name in space.ids), f"B-{kind}")

    if words == 1:
        return [tag("U", "S", "B", "I")]
    return [tag("B", "I"), *[tag("I")] * (words - 2), tag("L", "E", "I")]


class TagCounter:
    """Finds out which tags there are and how they are written."""

    def __init__(self) -> None:
        self.total = 0
        self._tags: dict[str, None] = {}
        self._types: dict[str, None] = {}
        self._spans = False

    def add(self, said: Tags) -> None:
        """The tags of one more row."""
        self.total += 1
        if said.tags is None:
            self._spans = True
            self._types |= dict.fromkeys(kind for _, _, kind in said.spans)
        else:
            self._tags |= dict.fromkeys(said.tags)

    def space(self) -> LabelSpace:
        """All tags in a fixed order: O first, then B- and I- of each type."""
        from clearhead.metrics.entities import detect_scheme, extract_entities

        scheme = "spans"
        types = set(self._types)
        if self._tags:
            try:
                scheme = detect_scheme([list(self._tags)])
            except InputError as error:
                raise InputError(f"The tags cannot be read: {error}") from None
            if scheme == "plain":
                return LabelSpace(names=tuple(sorted(self._tags)), kind="tags", scheme="plain")
            types |= {kind for tag in self._tags for _, _, kind in extract_entities([tag])}
        names = ("O", *(f"{mark}-{kind}" for kind in sorted(types) for mark in "BI"))
        return LabelSpace(names=names, kind="tags", scheme="spans" if scheme == "spans" else "bio")
