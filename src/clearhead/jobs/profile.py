"""What the training source holds, before a tokenizer or a model is needed: columns, labels, task, bad rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from clearhead.caller import setting
from clearhead.data import Columns, LabelSpace, Source, survey_rows
from clearhead.data.column_resolver import resolve_columns
from clearhead.data.row_codec import RowCodec
from clearhead.data.sources.source import BadRow, Row
from clearhead.errors import InputError
from clearhead.jobs.plan import RunPlan
from clearhead.progress import Progress
from clearhead.tasks import Task, check_task, detect_task, get_task, infer_task

REPORTED_ROWS = 1000  # rows between two reports of progress


def report_rows_read(source: Source, progress: Progress) -> Source:
    """A source that reports how many of its rows were read; what can be read once stays as it is."""

    def rows() -> Iterator[Row | BadRow]:
        for place, row in enumerate(source.open(), 1):
            if place % REPORTED_ROWS == 0:
                progress(f"reading {source.name}", place, None)
            yield row

    return replace(source, open=rows) if source.is_rereadable else source


@dataclass(frozen=True, kw_only=True)
class DatasetProfile:
    """What the training source holds, before a tokenizer or a model is needed."""

    sources: Mapping[str, Source]
    columns: Columns
    space: LabelSpace
    task: Task


def profile_dataset(sources: Mapping[str, Source], plan: RunPlan) -> DatasetProfile:
    """Columns, labels and task, with every bad row of the training source named at once."""
    train = sources["train"]
    named = get_task(plan.task) if plan.task is not None else detect_task(train)
    if named is not None and named.rows.label_counter is not None:
        return _profile_by_task(sources, plan, named)
    rows = RowCodec() if named is None else named.rows
    is_number = rows.label_kinds == ("number",)
    columns = resolve_columns(train, rows.layout, plan.column_roles)
    if named is not None and rows.layout.second_text and columns.text_b is None:
        which = setting("text_b", "COLUMN")
        raise InputError(f"{named.name} needs a second text; say which column holds it with {which}.")
    kind = plan.labels or ("number" if is_number else None)
    if not train.is_rereadable:
        raise InputError(f"{train.name} can be read only once; put it in a file to train on it.")
    space = survey_rows(train, columns, kind=kind, separator=plan.separator, skip_bad_rows=plan.skip_bad_rows)
    if space is None:
        raise InputError(f"{train.name} has no label column; say which one with {setting('label', 'COLUMN')}.")
    if space.kind not in rows.label_kinds and space.kind == "number" and plan.labels is None:
        space = survey_rows(train, columns, kind="classes", skip_bad_rows=plan.skip_bad_rows) or space
    task = infer_task(columns, space) if named is None else named
    check_task(task, columns, space)
    if space.kind == "number" and plan.settings.class_weight != "none":
        raise InputError("class_weight is for classes, and these labels are numbers.")
    known = task.metrics.names(space)
    if plan.metric is not None and plan.metric not in known:
        raise InputError(f"{plan.metric} is no metric of these labels; there are {', '.join(known)}.")
    return DatasetProfile(sources=sources, columns=columns, space=space, task=task)


def _profile_by_task(sources: Mapping[str, Source], plan: RunPlan, task: Task) -> DatasetProfile:
    """The same for a task that reads rows in its own way."""
    train = sources["train"]
    assert task.rows.label_counter is not None
    if not train.is_rereadable:
        raise InputError(f"{train.name} can be read only once; put it in a file to train on it.")
    columns = resolve_columns(train, task.rows.layout, plan.column_roles)
    if plan.settings.class_weight != "none":
        raise InputError(f"class_weight is for classes, and {task.name} has none.")
    space = survey_rows(
        train, columns, skip_bad_rows=plan.skip_bad_rows, check=task.rows.check_row, counter=task.rows.label_counter()
    )
    assert space is not None
    check_task(task, columns, space)
    known = task.metrics.names(space)
    if plan.metric is not None and plan.metric not in known:
        raise InputError(f"{plan.metric} is no metric of {task.name}; there are {', '.join(known)}.")
    return DatasetProfile(sources=sources, columns=columns, space=space, task=task)
