"""Which columns hold words and their tags, or a text and its spans."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from clearhead.data.column_layout import ColumnLayout, Role
from clearhead.data.column_resolver import columns_by_normalized_name
from clearhead.data.sources.source import Row, Source
from clearhead.tasks.cells import JSON_OPENERS, parse_cell
from clearhead.tasks.tag.rows import span_parts

TEXTS = ("tokens", "words", "text", "sentence")
TAGS = (
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
TAG_LIKE = re.compile(r"^(?:O|[BILOUSE]-\S+)$")


def _text_column(source: Source, called: Mapping[str, str], label: str | None) -> str | None:
    """A list of words, or a text where the labels are spans of it: some tools write both."""
    rows = _sample(source)
    spans = label is not None and any(_is_span(one) for row in rows for one in _few(row.get(label)))
    for name in (*TEXTS[2:], *TEXTS[:2]) if spans else TEXTS:
        if name in called and not any(isinstance(one, dict) for row in rows for one in _few(row.get(called[name]))):
            return called[name]
    return None


def is_tag_data(source: Source) -> bool:
    """Whether rows hold words with tags, or texts with spans."""
    if source.kind == "conll":
        return "tags" in source.columns
    called = columns_by_normalized_name(source.columns)
    rows = _sample(source)
    texts = [called[name] for name in TEXTS if name in called]
    tags = [called[name] for name in TAGS if name in called and called[name] not in texts]
    return any(_mostly(text, tag, rows) for text in texts for tag in tags)


def _mostly(text: str, tag: str, rows: list[dict[str, Any]]) -> bool:
    """Whether two columns go together in most rows that say anything: several labels may be as many as words once."""
    empty: tuple[Any, ...] = (None, "", "[]", [], {"entities": []})
    said = [_go_together(row.get(text), row.get(tag)) for row in rows if row.get(tag) not in empty]
    return 2 * sum(said) > len(said)


def _sample(source: Source) -> list[dict[str, Any]]:
    return [row.values for row in source.sample(20) if isinstance(row, Row)]


def _go_together(text: Any, tags: Any) -> bool:
    """Words and as many tags, or a text and spans."""
    if isinstance(text, str) and not text.lstrip().startswith("["):
        cells = tags.split() if isinstance(tags, str) else []
        marked = len(cells) == len(text.split()) and any(cell[1:2] == "-" for cell in cells)
        return (marked and all(TAG_LIKE.match(cell) for cell in cells)) or any(map(_is_span, _few(tags)))
    one, two = (parse_cell(value) if isinstance(value, str) else value for value in (text, tags))
    if not isinstance(one, list | tuple) or not isinstance(two, list | tuple) or len(one) != len(two):
        return False
    return all(isinstance(word, str) for word in one) and all(isinstance(tag, str | int) for tag in two) and bool(one)


def _few(value: Any) -> Sequence[Any]:
    if isinstance(value, str) and value.lstrip()[:1] in JSON_OPENERS:
        value = parse_cell(value)
    if isinstance(value, dict):
        value = value.get("entities")
    return value[:5] if isinstance(value, list | tuple) else ()


def _is_span(one: Any) -> bool:
    return span_parts(one) is not None


TAG_COLUMNS = ColumnLayout(
    roles=(
        Role(name="label", title="tags", content="tags or spans", required=True, column_names=TAGS),
        Role(
            name="text", title="words", column_names=TEXTS, choose_column=_text_column
        ),  # none of these: the longest texts
    ),
    second_text=False,
    pair_names=(),
    matches=is_tag_data,
    source_kind="conll",
)
