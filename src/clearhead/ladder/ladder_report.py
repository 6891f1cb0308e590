"""The report of a ladder: its methods, and the recommended one in detail."""

from __future__ import annotations

from pathlib import Path

from clearhead.jobs.run_file import read_run_file
from clearhead.jobs.run_folder import REPORT_FILE
from clearhead.ladder.ladder_run import LadderRun
from clearhead.ladder.result import Ladder
from clearhead.report.page import ReportData, save_report
from clearhead.tasks.evaluation import Evaluation


def write_report(ladder_run: LadderRun, ladder: Ladder, evaluation: Evaluation) -> Path:
    """Write a report with the comparison and the details of the recommended method."""

    report_note = (
        f"The sections after the comparison describe {ladder.recommended}; each method has a report in its own folder."
    )
    machine = read_run_file(Path(str(ladder.rung(ladder.recommended).folder))).compute_history.latest
    data = ReportData(
        title=f"{ladder_run.folder.name}: {ladder.recommended}",
        command=ladder_run.command,
        parts={ladder_run.part: evaluation},
        ladder=ladder.to_json(),
        notes=[report_note, *ladder_run.prepared.messages],
        cost={"seconds": ladder.seconds, "budget seconds": ladder.budget_seconds},
        machine={} if machine is None else machine.lines(),
    )
    return save_report(data, ladder_run.folder / REPORT_FILE)
