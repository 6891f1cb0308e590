"""Inspection of data for a model: lengths in its tokens, and an estimate of the time and memory of training."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

from clearhead.caller import setting, verb
from clearhead.checkpoint.folder import read_checkpoint
from clearhead.checkpoint.hub import locate
from clearhead.checkpoint.sentence import read_modules
from clearhead.data import ColumnRoles, Inspection, inspect_data, open_source, survey_rows
from clearhead.data.column_resolver import match_columns, resolve_columns
from clearhead.data.examples import TextRow
from clearhead.data.findings import collect_findings
from clearhead.data.inspect import Duplicates
from clearhead.data.row_codec import LengthPolicy, RowCodec
from clearhead.data.sources.row_store import store_rows
from clearhead.data.sources.source import Row, Source
from clearhead.data.table import encode_rows
from clearhead.errors import ClearheadError, InputError
from clearhead.jobs.defaults import choose_settings, resolve_threads
from clearhead.jobs.plan import TASK_NAMES, RunPlan
from clearhead.jobs.prepare import PreparedData
from clearhead.jobs.profile import report_rows_read
from clearhead.machine.threads import limit_threads
from clearhead.model.loading import load, load_tokenizers
from clearhead.progress import Progress, no_progress
from clearhead.tasks import TASKS, Task, check_task, detect_task, get_task, infer_task
from clearhead.tasks.packed import pack_table
from clearhead.tasks.registry import find_task_of_format
from clearhead.tasks.view import build_plain_view
from clearhead.train.method_choice import is_small_pair_data
from clearhead.training.settings import TrainSettings

if TYPE_CHECKING:
    from clearhead.data import Columns
    from clearhead.data.labels import Kind
    from clearhead.model import Model
    from clearhead.text import Tokenizer

SAMPLE_ROWS = 512  # rows for the trial steps
TRIAL_STEPS = 3  # timed steps, after one for warmup


def run_inspect(
    source: Any,
    *,
    dev: Any = None,
    test: Any = None,
    columns: Mapping[str, str | None] | None = None,
    task: str | None = None,
    options: str | None = None,
    model: str | None = "default",
    estimate: bool = True,
    progress: Progress = no_progress,
) -> Inspection:
    """Inspect data, with lengths in tokens if there is a model; the task is detected from the rows by default."""
    opened = open_rereadable(source, progress)
    named_columns: dict[str, Any] = {part: name for part, name in (columns or {}).items() if name is not None}
    if task is not None and task not in TASK_NAMES:
        raise InputError(f"task must be one of {', '.join(TASK_NAMES)}, got {task!r}.")
    if task == "translate":
        raise InputError(f"Translations have no labels to inspect; {verb('train')} checks their rows first.")
    row_task = _detect_task(opened, named_columns) if task is None else get_task(task)
    if options is not None and (row_task is None or row_task.rows.layout.find_options is None):
        choice_setting = setting(
            "task", next(candidate.name for candidate in TASKS.values() if candidate.rows.layout.find_options)
        )
        raise InputError(f"{setting('options')} is for multiple-choice rows; use {choice_setting}, or omit it.")
    resolved_columns = (
        _resolve_task_columns(opened, named_columns, row_task, options)
        if _has_own_columns(row_task)
        else _resolve_columns(opened, named_columns, row_task)
    )
    kind: Kind | None = "number" if row_task is not None and row_task.rows.label_kinds == ("number",) else None
    tokenizer, notes = None, []
    if model is not None:
        try:
            tokenizer = load_tokenizers(model)[0]
        except ClearheadError as error:
            notes.append(f"Lengths are in characters, because the model could not be loaded: {error}")
    max_length = None if model is None or tokenizer is None else _read_max_length(model, tokenizer)
    inspect = partial(
        inspect_as_task,
        row_task,
        opened,
        resolved_columns,
        tokenizer=tokenizer,
        dev=dev,
        test=test,
        max_length=max_length,
    )
    inspection = inspect() if kind is None else inspect(kind=kind)
    reads_classes = (
        row_task is not None and row_task.rows.plain_view is None and "number" not in row_task.rows.label_kinds
    )
    if reads_classes and inspection.kind == "number":  # `train` reads the numbers as classes, too
        kind = "classes"
        inspection = inspect(kind=kind)
    if model is None or tokenizer is None or not estimate or resolved_columns.label is None or inspection.kind is None:
        return replace(inspection, estimate={"notes": notes} if notes else None)
    try:
        return replace(
            inspection,
            estimate=_estimate_training(opened, resolved_columns, inspection, model, row_task, kind, progress),
        )
    except ClearheadError as error:
        return replace(inspection, estimate={"notes": [f"Training could not be estimated: {error}"]})


def open_rereadable(source: Any, progress: Progress) -> Source:
    """Open a source that can be read several times, with progress over its rows."""
    opened = open_source(source)
    if not opened.is_rereadable:
        raise InputError(f"{opened.name} can be read only once; save it to a file to inspect it.")
    return report_rows_read(store_rows(opened), progress)


def _detect_task(source: Source, named_columns: Mapping[str, Any]) -> Task | None:
    """The task with its own row format that these rows have; None for labeled texts, or if another label is set."""
    detected = find_task_of_format(source.kind) or detect_task(source)
    if detected is None or not detected.rows.layout.roles:
        return None
    try:
        label = resolve_columns(source, detected.rows.layout, labeled=False).label
    except InputError:
        return None
    return detected if named_columns.get("label") in (None, label) else None


def _has_own_columns(task: Task | None) -> TypeGuard[Task]:
    return task is not None and bool(task.rows.layout.roles)


def _resolve_columns(source: Source, named_columns: Mapping[str, Any], task: Task | None) -> Columns:
    layout = (RowCodec() if task is None else task.rows).layout
    try:
        return resolve_columns(source, layout, ColumnRoles(**named_columns))
    except InputError:
        if "label" in named_columns:
            raise
        return resolve_columns(source, layout, ColumnRoles(**named_columns), labeled=False)


def _resolve_task_columns(source: Source, named_columns: Mapping[str, Any], task: Task, options: str | None) -> Columns:
    option_columns = tuple(name.strip() for name in (options or "").split(",") if name.strip())
    return resolve_columns(
        source, task.rows.layout, ColumnRoles(**named_columns, options=option_columns), labeled=False
    )


def inspect_as_task(
    task: Task | None, source: Any, columns: Columns, *, dev: Any = None, test: Any = None, **options: Any
) -> Inspection:
    """Inspect rows as a task reads them."""
    view = None if task is None else task.rows.plain_view
    if task is None or view is None:
        return inspect_data(source, columns=columns, dev=dev, test=test, **options)
    plain_source, plain_columns = build_plain_view(task.rows, view, open_source(source), columns)
    other_sources: dict[str, Any] = {}
    for part_name, rows in (("dev", dev), ("test", test)):
        if rows is not None:
            opened = open_source(rows)
            other_sources[part_name] = build_plain_view(
                task.rows, view, opened, match_columns(opened, columns, task.rows.layout), plain_columns
            )[0]
    # labels are checked by the task itself
    inspection = inspect_data(plain_source, columns=plain_columns, labeled=False, **other_sources, **options)
    if not view.has_shared_texts:
        return inspection
    # near duplicates are expected: questions about the same passage share it
    without_duplicates = replace(inspection, near=Duplicates(), near_leaks=Duplicates(), findings=[])
    findings = [
        finding
        for finding in collect_findings(without_duplicates)
        if not any(phrase in finding.sentence for phrase in view.ignored_findings)
    ]
    return replace(without_duplicates, findings=findings)


def _read_max_length(reference: str, tokenizer: Tokenizer) -> int | None:
    """The maximum number of tokens of a model, from its tokenizer and its positions, without reading weights."""
    folder = locate(reference).folder
    try:
        modules = read_modules(folder)
        stack = read_checkpoint(folder if modules is None else modules.encoder, None).shape.stack
    except ClearheadError:
        return tokenizer.max_length
    limits = (tokenizer.max_length, stack.max_length if stack.positions == "learned" else None)
    return min((limit for limit in limits if limit is not None), default=None)


def _estimate_training(
    source: Source,
    columns: Columns,
    inspection: Inspection,
    reference: str,
    requested_task: Task | None,
    kind: Kind | None,
    progress: Progress,
) -> dict[str, Any]:
    """Estimate the time and memory of fine-tuning with default settings from a few real steps on the first rows."""
    from clearhead.training.objectives import objective_for
    from clearhead.training.trial import run_trial

    check, counter = (
        (None, None)
        if requested_task is None or requested_task.rows.label_counter is None
        else (requested_task.rows.check_row, requested_task.rows.label_counter())
    )
    # from all rows: the first ones may have only one label
    space = survey_rows(source, columns, kind=kind, skip_bad_rows=True, check=check, counter=counter)
    assert space is not None
    task = requested_task or infer_task(columns, space)
    sample = [task.rows.check_row(row, columns, space) for row in source.sample(SAMPLE_ROWS) if isinstance(row, Row)]
    rows = [row for row in sample if isinstance(row, TextRow)]
    check_task(task, columns, space)
    model: Model = load(
        reference, "core", head=task.head.kind, labels=task.head.output_names(space), fresh=True, head_pooling="auto"
    )
    max_length, default_stride = task.rows.window_defaults
    length_limit = min((limit for limit in (max_length, model.max_length()) if limit is not None), default=None)
    length_policy = LengthPolicy(
        max_length=length_limit,
        stride=default_stride if length_limit is None else min(default_stride, length_limit // 3),
    )
    table = encode_rows(rows, columns, model.tokenizer, space, length_policy, task.rows)
    data = pack_table(table, segments=model.shape.stack.segments > 1)
    settings = TrainSettings()
    started = time.perf_counter()
    with limit_threads(None):  # the number of threads of a run, restored afterwards
        resolve_threads(None, settings, model.shape)
        progress("timing training steps", 0, TRIAL_STEPS + 1)
        objective = objective_for(task.objective(space), settings)
        tokens_per_second, memory_bytes = run_trial(
            model.use_core().network, data, settings, objective, steps=TRIAL_STEPS, progress=progress
        )
    rows_to_train = inspection.parts.get(
        "train", round(inspection.rows * (1 - RunPlan().dev_share - RunPlan().test_share))
    )
    epochs = choose_settings(RunPlan(), task, space, rows_to_train, model.shape).epochs
    tokens = float(data.row_tokens.mean()) * rows_to_train * epochs
    dev_rows = inspection.parts.get("dev", round(inspection.rows * RunPlan().dev_share))
    starts_with_features = is_small_pair_data(columns, dev_rows) and "features" in task.methods
    return {
        "model": reference,
        "method": "finetune",
        "default_method": "features" if starts_with_features else "finetune",
        "epochs": epochs,
        "tokens_per_second": round(tokens_per_second),
        "seconds": round(tokens / tokens_per_second, 1),
        "memory_mb": round(memory_bytes / 1e6),
        "tried_seconds": round(time.perf_counter() - started, 1),
    }


def select_used_rows(prepared: PreparedData) -> Source:
    """The training source, limited to the rows that are used in a part (all unless rows are sampled)."""
    source = prepared.parts["train"].source
    used_numbers = {
        number for part in prepared.parts.values() if part.source is source for number in part.row_numbers.tolist()
    }
    return replace(source, open=lambda: (row for row in source.rows() if row.number in used_numbers))
