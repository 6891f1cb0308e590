"""Rows of any task in plain view, as one looks at data before training: texts, and what is right in a word or a few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.data.source import BadRow, Row, Source
from clearhead.data.table import survey
from clearhead.tasks.choice.rows import place_of
from clearhead.tasks.task import Task

OPTIONS = "options"


def plain_view(task: Task, source: Source, columns: Columns, names: Columns | None = None) -> tuple[Source, Columns]:
    """The same rows with texts and labels of a cell: types of entities, whether there is an answer, the right option.

    `names`: the columns of another source of the same data, to be called alike.
    """
    called = names or _named(task, columns)
    parts = {"text": called.text, "text_b": called.text_b, "label": called.label, "id": called.id}
    kept = {part: name for part, name in parts.items() if name is not None}
    if columns.split is not None:
        kept["split"] = columns.split
    space = _space(task, source, columns)

    def rows() -> Iterator[Row | BadRow]:
        for row in source.rows():
            found = row if isinstance(row, BadRow) else task.form.check(row, columns, None)
            if isinstance(row, Row) and not isinstance(found, BadRow) and space is not None:
                judged = task.form.check(row, columns, space)  # the label of an option that is not there
                found = judged if isinstance(judged, BadRow) else found
            yield found if isinstance(found, BadRow) else _plain(found, kept, space)

    seen = replace(source, columns=tuple(dict.fromkeys(kept.values())), open=rows)
    return seen, replace(called, split=columns.split)


def _named(task: Task, columns: Columns) -> Columns:
    """What the columns are called in plain view."""
    if task.name != "choice":
        return columns
    one = columns.options[0] if len(columns.options) == 1 else OPTIONS
    return replace(columns, text_b=one, options=())


def _space(task: Task, source: Source, columns: Columns) -> LabelSpace | None:
    """How options are numbered, which no single row can tell."""
    if task.name != "choice" or columns.label is None or task.counter is None:
        return None
    return survey(source, columns, skip_bad_rows=True, check=task.form.check, counter=task.counter())


def _plain(row: TextRow, kept: dict[str, str], space: LabelSpace | None) -> Row:
    values = {"text": row.text, "text_b": row.text_b, "label": _said(row, space), "id": row.id, "split": row.split}
    return Row(row.number, {name: values[part] for part, name in kept.items()}, row.line)


def _said(row: TextRow, space: LabelSpace | None) -> Any:
    from clearhead.metrics.entities import entities
    from clearhead.tasks.span.rows import Truth
    from clearhead.tasks.tag.rows import Tags

    label = row.label
    if isinstance(label, Tags):
        spans = label.spans if label.tags is None else entities(label.tags)
        return sorted({kind for _, _, kind in spans})
    if isinstance(label, Truth):
        return "answer" if label.answers else "no answer"
    if space is not None:
        place = place_of(label[0], row.extra, space.scheme or "0")
        return None if place is None else f"option {place + 1}"
    return None
