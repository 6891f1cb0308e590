"""The report of a training run: what was measured, beside an inspection of the rows."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from clearhead.checkpoint.passport import Trained
from clearhead.evaluate.examples import Second
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.prepare import Prepared
from clearhead.jobs.run_folder import REPORT
from clearhead.train.finish import Run

MOST_INSPECTED = 100_000  # rows; beyond that `clearhead inspect` is a job of its own


def write_report(
    run: Run, plan: RunPlan, prepared: Prepared, trained: Trained, log_folder: Path, second: Second
) -> Path:
    """The one-file report beside the model."""
    from clearhead.report.page import ReportData, save_report
    from clearhead.train.inspection import inspect_for, used_rows
    from clearhead.training.log import read_log

    train = prepared.parts["train"]
    inspection = None
    if sum(run.rows.values()) <= MOST_INSPECTED and plan.train is not None:
        rows = plan.train if plan.rows is None else used_rows(prepared)
        inspection = inspect_for(prepared.task, rows, train.columns, dev=plan.dev, test=plan.test)
    data = ReportData(
        title=f"{run.folder.name}: {run.task}",
        command=trained.command,
        parts=dict(run.evaluations),
        inspection=inspection,
        log=list(read_log(log_folder)),
        seeds=[asdict(score) for score in run.seeds],
        settings=trained.settings,
        passport=asdict(trained),
        notes=[*run.said, *run.notes, *second.notes],
        examples=second.examples,
        cost=dict(run.cost),
        sweep=[asdict(one) for one in run.sweep],
        baselines=[asdict(one) for one in run.baselines],
        machine={} if run.machine is None else run.machine.lines(),
    )
    return save_report(data, run.folder / REPORT)
