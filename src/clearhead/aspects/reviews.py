"""Reviews with their aspects marked, from spans that are labelled or from a row for each aspect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from clearhead.data import BadRow, Columns, Row, Source
from clearhead.data.column_resolver import find_column, resolve_columns
from clearhead.data.columns import format_column
from clearhead.data.examples import BadRows, read_split
from clearhead.data.sources.source import UNKNOWN_LABEL
from clearhead.errors import InputError
from clearhead.jobs.plan import RunPlan
from clearhead.metrics.entities import extract_entities
from clearhead.tasks.registry import PAIR, TAG

ASPECTS = ("aspect", "target", "aspect_term", "term")
STARTS = ("aspect_start", "start", "from", "begin", "offset", "aspect_from")
Span = tuple[int, int, str]  # characters, and the polarity


@dataclass(frozen=True, kw_only=True)
class Review:
    """A text and what it says of its aspects."""

    text: str
    spans: tuple[Span, ...]
    number: int  # of its first row in the source
    split: str | None = None


def reviews(source: Source, plan: RunPlan, say: Callable[[str], None]) -> list[Review]:
    """Texts with the spans of their aspects, from spans that are labelled or from a row for each aspect."""
    if not source.is_rereadable:
        raise InputError(f"{source.name} can be read only once; put it in a file to train on it.")
    if plan.text_b is None and not _has_aspects(source):
        columns = resolve_columns(source, TAG.rows.layout, plan.column_roles)
        rows = [(row, row) for row in source.rows()]
    else:
        columns, rows = _grouped(source, plan)
    for said in (*source.messages, *columns.messages):
        say(said)
    bad, made = BadRows(), []
    for row, origin in rows:
        checked = row if isinstance(row, BadRow) else TAG.rows.check_row(row, columns, None)
        if isinstance(checked, BadRow):
            bad.add(replace(checked, number=origin.number))
            continue
        borders = checked.extra.offsets
        said_of = checked.label.spans if checked.label.tags is None else extract_entities(checked.label.tags)
        spans = tuple((borders[a][0], borders[b - 1][1], label) for a, b, label in said_of)
        made.append(Review(text=checked.text, spans=spans, number=origin.number, split=checked.split))
    if not plan.skip_bad_rows:
        bad.raise_if_any(source, len(made))
    if not any(review.spans for review in made):
        raise InputError(f"{source.name} marks no aspect in any text.")
    return made


def spans_source(source: Source, text: str | None, text_b: str | None, label: str | None) -> Source:
    """Rows of one aspect each as rows of a text and its spans; rows of another form as they are."""
    if not _has_aspects(source) and text_b is None:
        return source
    plan = RunPlan(task="aspect", text=text, text_b=text_b, label=label)
    return replace(
        source, kind="list", columns=("text", "spans"), open=lambda: (row for row, _ in _grouped(source, plan)[1])
    )


def _has_aspects(source: Source) -> bool:
    return find_column(source.columns, ASPECTS) is not None


def _grouped(source: Source, plan: RunPlan) -> tuple[Columns, list[tuple[Row | BadRow, Row | BadRow]]]:
    """Rows of one aspect each, put together by their text."""
    found = resolve_columns(source, PAIR.rows.layout, plan.column_roles)
    start = find_column(source.columns, STARTS)
    made: dict[tuple[str, str | None], tuple[Row, list[dict[str, Any]]]] = {}
    rows: list[tuple[Row | BadRow, Row | BadRow]] = []
    for row in source.rows():
        if isinstance(row, BadRow):
            rows.append((row, row))
            continue
        text, split = row.values.get(found.text), read_split(row, found)
        if not isinstance(text, str) or isinstance(split, BadRow):
            missing = BadRow(row.number, "the text is missing", "", row.line, UNKNOWN_LABEL)
            rows.append((split if isinstance(split, BadRow) else missing, row))
            continue
        span = _span(row, text, found, start)
        if isinstance(span, BadRow):
            rows.append((span, row))
            continue
        _, spans = made.setdefault((text, split), (row, []))
        if span is not None and span not in spans:
            spans.append(span)
    for (text, split), (row, spans) in made.items():
        rows.append((Row(row.number, {"text": text, "spans": spans, "split": split}, row.line), row))
    said = [line for line in found.messages if not line.startswith("not used")]
    said += [f"place of the aspect: {format_column(start)}"] if start is not None else []
    columns = Columns(
        text="text", label="spans", split="split" if found.split is not None else None, messages=tuple(said)
    )
    return columns, rows


def _span(row: Row, text: str, columns: Columns, start: str | None) -> dict[str, Any] | BadRow | None:
    """Where an aspect stands in its text; None: the row has no aspect."""
    aspect, label = row.values.get(columns.text_b or ""), row.values.get(columns.label or "")
    if aspect is None or not str(aspect).strip() or str(aspect).strip().upper() == "NULL":
        return None
    name, said = str(aspect).strip(), row.values.get(start) if start is not None else None
    counted = isinstance(said, int) or (isinstance(said, str) and said.strip().isdigit())
    begin = int(said) if counted and said is not None else text.find(name)
    if begin < 0 or text[begin : begin + len(name)] != name:
        return BadRow(row.number, f"the aspect {name[:40]!r} is not in its text", "", row.line, UNKNOWN_LABEL)
    return {"start": begin, "end": begin + len(name), "label": str(label)}
