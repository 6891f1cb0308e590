"""The columns of a source that a model reads: as requested, as in training, or detected; the others are reported."""

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
    requested: Mapping[str, str | None],
    options: str | None = None,
    *,
    labeled: bool = True,
) -> Columns:
    """Resolve the columns to read; without a training record, pairs are detected by their names, as in training."""
    if predictor.task.rows.layout.roles:
        return _resolve_task_columns(predictor, source, requested, options, labeled=labeled)
    reads_pairs, reference = predictor.reads_pairs, predictor.reference
    if options is not None:
        raise InputError(f"{reference} does not choose among options; omit {setting('options')}.")
    if requested["text_b"] is not None and reads_pairs is False:
        raise InputError(f"{reference} reads one text; omit {setting('text_b')}.")
    if reads_pairs is False:
        _refuse_pairs(predictor, source)
    if reads_pairs and source.kind == "list" and source.columns == ("text",):
        raise InputError(f"{source.name}: this model reads two texts; pass pairs such as [(text, second text)].")
    trained_columns = {} if predictor.trained is None else predictor.trained.columns
    names = {
        role: name or (trained_columns.get(role) if trained_columns.get(role) in source.columns else None)
        for role, name in requested.items()
    }
    if reads_pairs is not False and requested["text"] is None and _has_pair_columns(source, names):
        names |= {"text": "text", "text_b": "text_b"}
    is_pair = names["text_b"] is not None if reads_pairs is None else reads_pairs
    is_number = predictor.space.kind == "number"
    has_second_text = False if reads_pairs is False else True if is_pair and not is_number else None
    layout = ColumnLayout(second_text=has_second_text, numeric_label=is_number)
    columns = resolve_columns(
        source, layout, ColumnRoles(text=names["text"], text_b=names["text_b"], label=names["label"]), labeled=labeled
    )
    if is_pair and columns.text_b is None:
        option = setting("text_b", "COLUMN")
        raise InputError(f"{source.name}: this model reads two texts; name the column of the second with {option}.")
    return replace(columns, id=None, split=None)


def _has_pair_columns(source: Source, names: Mapping[str, str | None]) -> bool:
    """Whether the columns are named text and text_b, as those of tuples of two texts are."""
    return names["text"] in (None, "text") and names["text_b"] is None and {"text", "text_b"} <= set(source.columns)


def _refuse_pairs(predictor: Predictor, source: Source) -> None:
    if source.kind == "pairs":
        raise InputError(f"{predictor.reference} reads one text, and {source.name} has two in each row.")


def _resolve_task_columns(
    predictor: Predictor, source: Source, names: Mapping[str, str | None], options: str | None, *, labeled: bool
) -> Columns:
    """Resolve the columns of a task that defines its own column layout."""
    task = predictor.task
    trained = predictor.trained or TrainingRecord(task=task.name)
    trained_columns = {role: name for role, name in trained.columns.items() if name in source.columns}
    if task.rows.layout.second_text is False:
        _refuse_pairs(predictor, source)
    if source.kind == "pairs":
        trained_columns = {"text": "text", "text_b": "text_b"} | trained_columns
    option_columns = tuple(name.strip() for name in options.split(",")) if options else tuple(trained.options)
    roles = ColumnRoles(
        text=names["text"] or trained_columns.get("text"),
        text_b=names["text_b"] or trained_columns.get("text_b"),
        label=names["label"] or trained_columns.get("label"),
        id=trained_columns.get("id"),
        options=option_columns if options or set(option_columns) <= set(source.columns) else (),
    )
    return replace(resolve_columns(source, task.rows.layout, roles, labeled=labeled), split=None)


def report_columns(predictor: Predictor, source: Source, columns: Columns) -> None:
    """Warn about text columns that are not read, unless the model was trained on the same single column."""
    for warning in source.warnings:
        log.warning("%s", warning)
    trained_columns = {} if predictor.trained is None else predictor.trained.columns
    if columns.unused_texts and trained_columns.get("text") != columns.text:
        text_columns = " and ".join(format_column(name) for name in (columns.text, columns.text_b) if name is not None)
        log.warning(
            "%s reads %s and ignores the texts of %s; choose columns with %s and %s.",
            predictor.reference,
            text_columns,
            format_columns(columns.unused_texts),
            setting("text"),
            setting("text_b"),
        )
