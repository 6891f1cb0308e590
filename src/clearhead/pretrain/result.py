"""The result of a pre-training run, and its HTML report."""

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


@renamed_fields(judged="held_out", said="messages", seen="tokens_seen")
@dataclass(frozen=True, kw_only=True)
class PretrainResult:
    """A finished pre-training run: the model folder, the training text and the scores on held-out text."""

    folder: Path
    family: str
    objective: str
    parameters: int
    documents: int
    tokens: int  # of training text
    steps: int
    tokens_seen: int  # training tokens over all epochs
    held_out: HeldOutScores | None  # None: the text was too short to hold out a part
    history: tuple[HeldOutScores, ...]
    messages: tuple[str, ...]
    notes: tuple[str, ...]
    cost: dict[str, float] = field(default_factory=dict)
    report: Path | None = None
    machine: Machine | None = None  # that computed the run

    def __repr__(self) -> str:
        scores = self.held_out
        loss = None if scores is None else f"loss {scores.loss:.3f} ({scores.loss_low:.3f} to {scores.loss_high:.3f})"
        accuracy = None if scores is None else f"accuracy {scores.accuracy:.1%}"
        size = f"{self.parameters:,} parameters"
        steps = f"{self.steps:,} steps"
        return short_repr(
            "PretrainResult",
            f"{self.family} with {self.objective}",
            size,
            steps,
            loss or "not evaluated",
            accuracy,
            f"folder {self.folder}",
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as printed by `--json`."""
        names = ("family", "objective", "parameters", "documents", "tokens", "steps", "cost")
        values: dict[str, Any] = {name: getattr(self, name) for name in names}
        return values | {
            "folder": str(self.folder),
            "seen": self.tokens_seen,
            "held_out": None if self.held_out is None else self.held_out.to_json(),
            "history": [scores.to_json() for scores in self.history],
            "said": list(self.messages),
            "notes": list(self.notes),
            "report": None if self.report is None else str(self.report),
            "machine": None if self.machine is None else asdict(self.machine),
        }


def write_report(
    result: PretrainResult,
    plan: PretrainPlan,
    objective: PretrainObjective,
    title: str,
    log: Sequence[Mapping[str, Any]],
    command: str,
) -> Path:
    """Write the self-contained HTML report into the model folder."""
    from clearhead.report.page import ReportData, save_report
    from clearhead.report.pretraining import PretrainingFacts, pretraining_lead, pretraining_sections

    is_causal = objective.name in ("clm", "bilm")
    facts = PretrainingFacts(
        text=result.messages,
        held_out=None if result.held_out is None else result.held_out.to_json(),
        history=[scores.to_json() for scores in result.history],
        blank=f"Continuation of: {PROMPT}" if is_causal else SENTENCE.format(mask="..."),
        counted={
            "documents": result.documents,
            "tokens of text": result.tokens,
            "steps": result.steps,
            "tokens read": result.tokens_seen,
            "parameters": result.parameters,
            "family": title,
            "objective": objective.title,
        },
    )
    settings = {key: value for key, value in asdict(plan.without_folders()).items() if key != "settings"}
    data = ReportData(
        title=f"{result.folder.name}: pre-training",
        command=command,
        parts={},
        log=[{key: value for key, value in line.items() if key not in ("score", "best")} for line in log],
        settings={**settings, **asdict(plan.settings)},
        notes=list(result.notes),
        cost=dict(result.cost),
        sections=pretraining_sections(facts),
        lead=pretraining_lead(facts),
        machine={} if result.machine is None else result.machine.lines(),
    )
    return save_report(data, result.folder / REPORT_FILE)
