"""The profile of a dataset, determined without a tokenizer or model: columns, labels and task."""

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

REPORTED_ROWS = 1000  # rows between progress reports


def report_rows_read(source: Source, progress: Progress) -> Source:
    """Make a source report how many rows were read; sources that can be read only once are unchanged."""

    def read_rows() -> Iterator[Row | BadRow]:
        for count, row in enumerate(source.open(), 1):
            if count % REPORTED_ROWS == 0:
                progress(f"reading {source.name}", count, None)
            yield row

    return replace(source, open=read_rows) if source.is_rereadable else source


@dataclass(frozen=True, kw_only=True)
class DatasetProfile:
    """Sources, columns, labels and task of a dataset."""

    sources: Mapping[str, Source]
    columns: Columns
    space: LabelSpace
    task: Task


def profile_dataset(sources: Mapping[str, Source], plan: RunPlan) -> DatasetProfile:
    """Determine columns, labels and task; all bad rows of the training source are reported in one error."""
    train = sources["train"]
    named_task = get_task(plan.task) if plan.task is not None else detect_task(train)
    if named_task is not None and named_task.rows.label_counter is not None:
        return _profile_by_task(sources, plan, named_task)
    codec = RowCodec() if named_task is None else named_task.rows
    is_number = codec.label_kinds == ("number",)
    columns = resolve_columns(train, codec.layout, plan.column_roles)
    if named_task is not None and codec.layout.second_text and columns.text_b is None:
        option = setting("text_b", "COLUMN")
        raise InputError(f"{named_task.name} needs a second text column; name it with {option}.")
    kind = plan.labels or ("number" if is_number else None)
    if not train.is_rereadable:
        raise InputError(f"{train.name} can be read only once; put it in a file to train on it.")
    space = survey_rows(train, columns, kind=kind, separator=plan.separator, skip_bad_rows=plan.skip_bad_rows)
    if space is None:
        raise InputError(f"{train.name} has no label column; name it with {setting('label', 'COLUMN')}.")
    if space.kind not in codec.label_kinds and space.kind == "number" and plan.labels is None:
        space = survey_rows(train, columns, kind="classes", skip_bad_rows=plan.skip_bad_rows) or space
    task = infer_task(columns, space) if named_task is None else named_task
    check_task(task, columns, space)
    if space.kind == "number" and plan.settings.class_weight != "none":
        raise InputError("class_weight requires classes, got numeric labels.")
    metric_names = task.metrics.names(space)
    if plan.metric is not None and plan.metric not in metric_names:
        raise InputError(f"metric must be one of {', '.join(metric_names)} for these labels, got {plan.metric}.")
    return DatasetProfile(sources=sources, columns=columns, space=space, task=task)


def _profile_by_task(sources: Mapping[str, Source], plan: RunPlan, task: Task) -> DatasetProfile:
    """Determine columns and labels of a task that defines its own column layout."""
    train = sources["train"]
    assert task.rows.label_counter is not None
    if not train.is_rereadable:
        raise InputError(f"{train.name} can be read only once; put it in a file to train on it.")
    columns = resolve_columns(train, task.rows.layout, plan.column_roles)
    if plan.settings.class_weight != "none":
        raise InputError(f"class_weight requires classes, got task {task.name}.")
    space = survey_rows(
        train, columns, skip_bad_rows=plan.skip_bad_rows, check=task.rows.check_row, counter=task.rows.label_counter()
    )
    assert space is not None
    check_task(task, columns, space)
    metric_names = task.metrics.names(space)
    if plan.metric is not None and plan.metric not in metric_names:
        raise InputError(f"metric must be one of {', '.join(metric_names)} for task {task.name}, got {plan.metric}.")
    return DatasetProfile(sources=sources, columns=columns, space=space, task=task)
