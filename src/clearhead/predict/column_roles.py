"""Which columns of a source a model reads: as said, as in training, or as they look; what it does not read is told."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from clearhead.caller import setting
from clearhead.checkpoint.passport import TrainingRecord
from clearhead.data import ColumnRoles, Columns, Source
from clearhead.data.column_layout import ColumnLayout
from clearhead.data.column_resolver import resolve_columns
from clearhead.data.columns import format_column, format_columns
from clearhead.errors import InputError

if TYPE_CHECKING:
    from clearhead.predict.predictor import Predictor

log = logging.getLogger("clearhead")


def find_columns(
    predictor: Predictor,
    source: Source,
    asked: Mapping[str, str | None],
    options: str | None = None,
    *,
    labelled: bool = True,
) -> Columns:
    """The columns to read; pairs are found by their names, as in training, where nobody knows what a model reads."""
    if predictor.task.rows.layout.roles:
        return _resolve_task_columns(predictor, source, asked, options, labelled=labelled)
    two, reference = predictor.reads_pairs, predictor.reference
    if options is not None:
        raise InputError(f"{reference} does not choose among options; leave {setting('options')} out.")
    if asked["text_b"] is not None and two is False:
        raise InputError(f"{reference} reads one text; leave {setting('text_b')} out.")
    if two is False:
        _refuse_pairs(predictor, source)
    if two and source.kind == "list" and source.columns == ("text",):
        raise InputError(f"{source.name}: this model reads two texts; give pairs such as [(text, second text)].")
    known = {} if predictor.trained is None else predictor.trained.columns
    names = {
        part: name or (known.get(part) if known.get(part) in source.columns else None) for part, name in asked.items()
    }
    if two is not False and asked["text"] is None and _has_pair_columns(source, names):
        names |= {"text": "text", "text_b": "text_b"}
    pair = names["text_b"] is not None if two is None else two
    number = predictor.space.kind == "number"
    second = False if two is False else True if pair and not number else None
    layout = ColumnLayout(second_text=second, numeric_label=number)
    found = resolve_columns(
        source, layout, ColumnRoles(text=names["text"], text_b=names["text_b"], label=names["label"]), labelled=labelled
    )
    if pair and found.text_b is None:
        which = setting("text_b", "COLUMN")
        raise InputError(f"{source.name}: this model reads two texts; say where the second is with {which}.")
    return replace(found, id=None, split=None)


def _has_pair_columns(source: Source, names: Mapping[str, str | None]) -> bool:
    """Whether rows are pairs by the names that roles have here, as tuples of two texts are."""
    return names["text"] in (None, "text") and names["text_b"] is None and {"text", "text_b"} <= set(source.columns)


def _refuse_pairs(predictor: Predictor, source: Source) -> None:
    if source.kind == "pairs":
        raise InputError(f"{predictor.reference} reads one text, and {source.name} has two in each row.")


def _resolve_task_columns(
    predictor: Predictor, source: Source, names: Mapping[str, str | None], options: str | None, *, labelled: bool
) -> Columns:
    """The same for a task that reads rows in its own way."""
    task = predictor.task
    trained = predictor.trained or TrainingRecord(task=task.name)
    here = {part: name for part, name in trained.columns.items() if name in source.columns}
    if task.rows.layout.second_text is False:
        _refuse_pairs(predictor, source)
    if source.kind == "pairs":
        here = {"text": "text", "text_b": "text_b"} | here
    chosen = tuple(name.strip() for name in options.split(",")) if options else tuple(trained.options)
    roles = ColumnRoles(
        text=names["text"] or here.get("text"),
        text_b=names["text_b"] or here.get("text_b"),
        label=names["label"] or here.get("label"),
        id=here.get("id"),
        options=chosen if options or set(chosen) <= set(source.columns) else (),
    )
    return replace(resolve_columns(source, task.rows.layout, roles, labelled=labelled), split=None)


def report_columns(predictor: Predictor, source: Source, columns: Columns) -> None:
    """Warn of columns that hold texts and are not read, unless the model learned from this one alone."""
    for warning in source.warnings:
        log.warning("%s", warning)
    trained = {} if predictor.trained is None else predictor.trained.columns
    if columns.unused_texts and trained.get("text") != columns.text:
        read = " and ".join(format_column(name) for name in (columns.text, columns.text_b) if name is not None)
        log.warning(
            "%s reads %s, and not the texts of %s; %s and %s choose columns.",
            predictor.reference,
            read,
            format_columns(columns.unused_texts),
            setting("text"),
            setting("text_b"),
        )
