"""Reviews with labeled aspects, from rows with spans or rows with one aspect each."""

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

ASPECT_NAMES = ("aspect", "target", "aspect_term", "term")
START_NAMES = ("aspect_start", "start", "from", "begin", "offset", "aspect_from")
Span = tuple[int, int, str]  # characters, and the polarity


@dataclass(frozen=True, kw_only=True)
class Review:
    """A text with the spans and polarities of its aspects."""

    text: str
    spans: tuple[Span, ...]
    number: int  # number of its first row in the source
    split: str | None = None


def read_reviews(source: Source, plan: RunPlan, report: Callable[[str], None]) -> list[Review]:
    """Read reviews from rows with labeled spans or rows with one aspect each."""
    if not source.is_rereadable:
        raise InputError(f"{source.name} can be read only once; save it to a file to train on it.")
    if plan.text_b is None and not _has_aspects(source):
        columns = resolve_columns(source, TAG.rows.layout, plan.column_roles)
        rows = [(row, row) for row in source.rows()]
    else:
        columns, rows = _group_by_text(source, plan)
    for message in (*source.messages, *columns.messages):
        report(message)
    bad_rows, reviews = BadRows(), []
    for row, origin in rows:
        checked = row if isinstance(row, BadRow) else TAG.rows.check_row(row, columns, None)
        if isinstance(checked, BadRow):
            bad_rows.add(replace(checked, number=origin.number))
            continue
        offsets = checked.extra.offsets
        word_spans = checked.label.spans if checked.label.tags is None else extract_entities(checked.label.tags)
        spans = tuple((offsets[first][0], offsets[last - 1][1], label) for first, last, label in word_spans)
        reviews.append(Review(text=checked.text, spans=spans, number=origin.number, split=checked.split))
    if not plan.skip_bad_rows:
        bad_rows.raise_if_any(source, len(reviews))
    if not any(review.spans for review in reviews):
        raise InputError(f"{source.name} has no aspects in any text.")
    return reviews


def to_spans_source(source: Source, text: str | None, text_b: str | None, label: str | None) -> Source:
    """Convert rows with one aspect each to rows with spans; other sources are returned unchanged."""
    if not _has_aspects(source) and text_b is None:
        return source
    plan = RunPlan(task="aspect", text=text, text_b=text_b, label=label)
    return replace(
        source, kind="list", columns=("text", "spans"), open=lambda: (row for row, _ in _group_by_text(source, plan)[1])
    )


def _has_aspects(source: Source) -> bool:
    return find_column(source.columns, ASPECT_NAMES) is not None


def _group_by_text(source: Source, plan: RunPlan) -> tuple[Columns, list[tuple[Row | BadRow, Row | BadRow]]]:
    """Group rows with one aspect each by text."""
    pair_columns = resolve_columns(source, PAIR.rows.layout, plan.column_roles)
    start_column = find_column(source.columns, START_NAMES)
    groups: dict[tuple[str, str | None], tuple[Row, list[dict[str, Any]]]] = {}
    rows: list[tuple[Row | BadRow, Row | BadRow]] = []
    for row in source.rows():
        if isinstance(row, BadRow):
            rows.append((row, row))
            continue
        text, split = row.values.get(pair_columns.text), read_split(row, pair_columns)
        if not isinstance(text, str) or isinstance(split, BadRow):
            missing_text = BadRow(row.number, "the text is missing", "", row.line, UNKNOWN_LABEL)
            rows.append((split if isinstance(split, BadRow) else missing_text, row))
            continue
        span = _locate_aspect(row, text, pair_columns, start_column)
        if isinstance(span, BadRow):
            rows.append((span, row))
            continue
        _, spans = groups.setdefault((text, split), (row, []))
        if span is not None and span not in spans:
            spans.append(span)
    for (text, split), (row, spans) in groups.items():
        rows.append((Row(row.number, {"text": text, "spans": spans, "split": split}, row.line), row))
    messages = [line for line in pair_columns.messages if not line.startswith("not used")]
    messages += [f"aspect offset column: {format_column(start_column)}"] if start_column is not None else []
    columns = Columns(
        text="text", label="spans", split="split" if pair_columns.split is not None else None, messages=tuple(messages)
    )
    return columns, rows


def _locate_aspect(row: Row, text: str, columns: Columns, start_column: str | None) -> dict[str, Any] | BadRow | None:
    """Locate the aspect of a row in its text; None if the row has no aspect."""
    aspect, label = row.values.get(columns.text_b or ""), row.values.get(columns.label or "")
    if aspect is None or not str(aspect).strip() or str(aspect).strip().upper() == "NULL":
        return None
    name, start_cell = str(aspect).strip(), row.values.get(start_column) if start_column is not None else None
    is_integer = isinstance(start_cell, int) or (isinstance(start_cell, str) and start_cell.strip().isdigit())
    start = int(start_cell) if is_integer and start_cell is not None else text.find(name)
    if start < 0 or text[start : start + len(name)] != name:
        return BadRow(row.number, f"the aspect {name[:40]!r} is not in its text", "", row.line, UNKNOWN_LABEL)
    return {"start": start, "end": start + len(name), "label": str(label)}
