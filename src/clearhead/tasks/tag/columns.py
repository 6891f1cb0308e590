"""Columns of the tag task: words and tags, or text and spans."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from clearhead.data.column_layout import ColumnLayout, Role
from clearhead.data.column_resolver import columns_by_normalized_name
from clearhead.data.sources.source import Row, Source
from clearhead.tasks.cells import JSON_OPENERS, parse_cell
from clearhead.tasks.tag.rows import parse_span

TEXT_NAMES = ("tokens", "words", "text", "sentence")
TAG_NAMES = (
    "tags",
    "ner_tags",
    "ner",
    "spans",
    "entities",
    "tag",
    "labels",
    "label",
    "pos_tags",
    "pos",
    "annotations",
    "iob",
)
TAG_PATTERN = re.compile(r"^(?:O|[BILOUSE]-\S+)$")


def _find_text_column(source: Source, plain_names: Mapping[str, str], label: str | None) -> str | None:
    """Find the column of words, or of text if the labels are spans; some tools write both."""
    rows = _sample_values(source)
    has_spans = label is not None and any(_is_span(entry) for row in rows for entry in _first_items(row.get(label)))
    for name in (*TEXT_NAMES[2:], *TEXT_NAMES[:2]) if has_spans else TEXT_NAMES:
        if name in plain_names and not any(
            isinstance(entry, dict) for row in rows for entry in _first_items(row.get(plain_names[name]))
        ):
            return plain_names[name]
    return None


def is_tag_data(source: Source) -> bool:
    """Whether the rows are words with tags or texts with spans."""
    if source.kind == "conll":
        return "tags" in source.columns
    plain_names = columns_by_normalized_name(source.columns)
    rows = _sample_values(source)
    texts = [plain_names[name] for name in TEXT_NAMES if name in plain_names]
    tags = [plain_names[name] for name in TAG_NAMES if name in plain_names and plain_names[name] not in texts]
    return any(_are_tag_columns(text, tag, rows) for text in texts for tag in tags)


def _are_tag_columns(text_column: str, tag_column: str, rows: list[dict[str, Any]]) -> bool:
    """Whether two columns are aligned in most non-empty rows; single rows can be by chance."""
    empty: tuple[Any, ...] = (None, "", "[]", [], {"entities": []})
    matches = [
        _are_aligned(row.get(text_column), row.get(tag_column)) for row in rows if row.get(tag_column) not in empty
    ]
    return 2 * sum(matches) > len(matches)


def _sample_values(source: Source) -> list[dict[str, Any]]:
    return [row.values for row in source.sample(20) if isinstance(row, Row)]


def _are_aligned(text: Any, tags: Any) -> bool:
    """Whether the cells are words with as many tags, or a text with spans."""
    if isinstance(text, str) and not text.lstrip().startswith("["):
        cells = tags.split() if isinstance(tags, str) else []
        is_tag_per_word = len(cells) == len(text.split()) and any(cell[1:2] == "-" for cell in cells)
        return (is_tag_per_word and all(TAG_PATTERN.match(cell) for cell in cells)) or any(
            map(_is_span, _first_items(tags))
        )
    words, word_tags = (parse_cell(value) if isinstance(value, str) else value for value in (text, tags))
    if not isinstance(words, list | tuple) or not isinstance(word_tags, list | tuple) or len(words) != len(word_tags):
        return False
    return (
        all(isinstance(word, str) for word in words)
        and all(isinstance(tag, str | int) for tag in word_tags)
        and bool(words)
    )


def _first_items(value: Any) -> Sequence[Any]:
    if isinstance(value, str) and value.lstrip()[:1] in JSON_OPENERS:
        value = parse_cell(value)
    if isinstance(value, dict):
        value = value.get("entities")
    return value[:5] if isinstance(value, list | tuple) else ()


def _is_span(value: Any) -> bool:
    return parse_span(value) is not None


TAG_COLUMNS = ColumnLayout(
    roles=(
        Role(name="label", title="tags", content="tags or spans", required=True, column_names=TAG_NAMES),
        Role(
            name="text", title="words", column_names=TEXT_NAMES, choose_column=_find_text_column
        ),  # without these names, the column with the longest texts
    ),
    second_text=False,
    pair_names=(),
    matches=is_tag_data,
    source_kind="conll",
)
