"""The report of a training run: its metrics and an inspection of its rows."""

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

MAX_INSPECTED_ROWS = 100_000  # larger datasets are not inspected; `clearhead inspect` does that


def select_inspected_rows(
    run: Run, plan: RunPlan, prepared: PreparedData, sources: Mapping[str, Source]
) -> dict[str, Source] | None:
    """The sources that a report inspects, limited to used training rows; None without files, or with too many rows."""

    if sum(run.rows.values()) > MAX_INSPECTED_ROWS or plan.train is None:
        return None
    part_sources = {part: source for part, source in sources.items() if getattr(plan, part) is not None}
    return part_sources if plan.rows is None else part_sources | {"train": select_used_rows(prepared)}


def write_report(
    run: Run,
    prepared: PreparedData,
    trained: TrainingRecord,
    inspected_sources: Mapping[str, Source] | None,
    log_folder: Path,
    error_analysis: ErrorAnalysis,
) -> Path:
    """Write the report as one file in the model folder."""

    inspection = None
    if inspected_sources is not None:
        columns, other_parts = (
            prepared.parts["train"].columns,
            {"dev": inspected_sources.get("dev"), "test": inspected_sources.get("test")},
        )
        inspection = inspect_as_task(prepared.task, inspected_sources["train"], columns, **other_parts)
    data = ReportData(
        title=f"{run.folder.name}: {run.task}",
        command=trained.command,
        parts=dict(run.evaluations),
        inspection=inspection,
        log=list(read_log(log_folder)),
        seeds=[asdict(score) for score in run.seeds],
        settings=trained.settings,
        passport=asdict(trained),
        notes=[*run.messages, *run.notes, *error_analysis.notes],
        examples=error_analysis.examples,
        cost=dict(run.cost),
        sweep=[asdict(entry) for entry in run.sweep],
        baselines=[asdict(entry) for entry in run.baselines],
        machine={} if run.machine is None else run.machine.lines(),
    )
    return save_report(data, run.folder / REPORT_FILE)
