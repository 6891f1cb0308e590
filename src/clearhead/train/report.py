"""The report of a training run: what was measured, beside an inspection of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from clearhead.checkpoint.passport import TrainingRecord
from clearhead.data import Source
from clearhead.evaluate.examples import ErrorAnalysis
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.prepare import PreparedData
from clearhead.jobs.run_folder import REPORT_FILE
from clearhead.report.page import ReportData, save_report
from clearhead.train.finish import Run
from clearhead.train.inspection import inspect_as_task, select_used_rows
from clearhead.training.log import read_log

MAX_INSPECTED_ROWS = 100_000  # rows; beyond that `clearhead inspect` is a job of its own


def select_inspected_rows(
    run: Run, plan: RunPlan, prepared: PreparedData, sources: Mapping[str, Source]
) -> dict[str, Source] | None:
    """The files that a report inspects, of the training file the rows in use; None: no files, or too many rows."""

    if sum(run.rows.values()) > MAX_INSPECTED_ROWS or plan.train is None:
        return None
    part_sources = {part: source for part, source in sources.items() if getattr(plan, part) is not None}
    return part_sources if plan.rows is None else part_sources | {"train": select_used_rows(prepared)}


def write_report(
    run: Run,
    prepared: PreparedData,
    trained: TrainingRecord,
    inspected: Mapping[str, Source] | None,
    log_folder: Path,
    second: ErrorAnalysis,
) -> Path:
    """The one-file report beside the model."""

    inspection = None
    if inspected is not None:
        columns, other_parts = (
            prepared.parts["train"].columns,
            {"dev": inspected.get("dev"), "test": inspected.get("test")},
        )
        inspection = inspect_as_task(prepared.task, inspected["train"], columns, **other_parts)
    data = ReportData(
        title=f"{run.folder.name}: {run.task}",
        command=trained.command,
        parts=dict(run.evaluations),
        inspection=inspection,
        log=list(read_log(log_folder)),
        seeds=[asdict(score) for score in run.seeds],
        settings=trained.settings,
        passport=asdict(trained),
        notes=[*run.messages, *run.notes, *second.notes],
        examples=second.examples,
        cost=dict(run.cost),
        sweep=[asdict(entry) for entry in run.sweep],
        baselines=[asdict(entry) for entry in run.baselines],
        machine={} if run.machine is None else run.machine.lines(),
    )
    return save_report(data, run.folder / REPORT_FILE)
