"""What a run of pre-training leaves: its result as a value, and the one-file report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from clearhead.deprecation import renamed_fields
from clearhead.html import short_repr
from clearhead.jobs.run_folder import REPORT_FILE
from clearhead.machine.cpu import Machine
from clearhead.pretrain.held_out import PROMPT, SENTENCE, HeldOutScores
from clearhead.pretrain.plan import PretrainPlan
from clearhead.pretraining.objective import PretrainObjective


@renamed_fields(judged="held_out", said="text_notes", seen="tokens_seen")
@dataclass(frozen=True, kw_only=True)
class PretrainResult:
    """A finished run: where the model is, what it learned from, and how well."""

    folder: Path
    family: str
    objective: str
    parameters: int
    documents: int
    tokens: int  # of text to learn from
    steps: int
    tokens_seen: int  # tokens that were read, over all epochs
    held_out: HeldOutScores | None  # None: there was nothing to hold out
    history: tuple[HeldOutScores, ...]
    text_notes: tuple[str, ...]
    notes: tuple[str, ...]
    cost: dict[str, float] = field(default_factory=dict)
    report: Path | None = None
    machine: Machine | None = None  # that it computed on

    def __repr__(self) -> str:
        found = self.held_out
        loss = None if found is None else f"loss {found.loss:.3f} ({found.loss_low:.3f} to {found.loss_high:.3f})"
        right = None if found is None else f"words right {found.accuracy:.1%}"
        size = f"{self.parameters:,} parameters"
        learned = f"{self.steps:,} steps"
        return short_repr(
            "PretrainResult",
            f"{self.family} by {self.objective}",
            size,
            learned,
            loss or "nothing held out",
            right,
            f"folder {self.folder}",
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `--json` prints them."""
        names = ("family", "objective", "parameters", "documents", "tokens", "steps", "cost")
        made: dict[str, Any] = {name: getattr(self, name) for name in names}
        return made | {
            "folder": str(self.folder),
            "seen": self.tokens_seen,
            "held_out": None if self.held_out is None else self.held_out.to_json(),
            "history": [one.to_json() for one in self.history],
            "said": list(self.text_notes),
            "notes": list(self.notes),
            "report": None if self.report is None else str(self.report),
            "machine": None if self.machine is None else asdict(self.machine),
        }


def write_report(
    run: PretrainResult,
    plan: PretrainPlan,
    objective: PretrainObjective,
    title: str,
    log: Sequence[Mapping[str, Any]],
    command: str,
) -> Path:
    """The one-file report beside the model."""
    from clearhead.report.page import ReportData, save_report
    from clearhead.report.pretraining import PretrainingFacts, pretraining_lead, pretraining_sections

    causal = objective.name in ("clm", "bilm")
    facts = PretrainingFacts(
        text=run.text_notes,
        held_out=None if run.held_out is None else run.held_out.to_json(),
        history=[one.to_json() for one in run.history],
        blank=f"It goes on from: {PROMPT}" if causal else SENTENCE.format(mask="..."),
        counted={
            "documents": run.documents,
            "tokens of text": run.tokens,
            "steps": run.steps,
            "tokens read": run.tokens_seen,
            "parameters": run.parameters,
            "family": title,
            "objective": objective.title,
        },
    )
    settings = {key: value for key, value in asdict(plan.without_folders()).items() if key != "settings"}
    data = ReportData(
        title=f"{run.folder.name}: pre-training",
        command=command,
        parts={},
        log=[{key: value for key, value in line.items() if key not in ("score", "best")} for line in log],
        settings={**settings, **asdict(plan.settings)},
        notes=list(run.notes),
        cost=dict(run.cost),
        sections=pretraining_sections(facts),
        lead=pretraining_lead(facts),
        machine={} if run.machine is None else run.machine.lines(),
    )
    return save_report(data, run.folder / REPORT_FILE)
