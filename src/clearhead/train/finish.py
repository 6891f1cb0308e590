"""The end of a run: fit the reading on dev, measure, write model, passport, metrics and report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.passport import TrainingRecord
from clearhead.deprecation import renamed_fields
from clearhead.files import write_json
from clearhead.html import format_interval, format_number, render_table, short_repr
from clearhead.jobs.method import FittedMethod, LayerScore
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.prepare import PartRows, PreparedData
from clearhead.jobs.run_file import ComputeHistory
from clearhead.jobs.run_folder import METRICS_FILE, SPLIT_FILE
from clearhead.machine.cpu import Machine, versions
from clearhead.metrics import threshold_for, to_json
from clearhead.model.layers import pooling_modes
from clearhead.tasks.evaluation import Evaluation, evaluate_logits
from clearhead.tasks.task import Calibration

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class SeedScore:
    """How one of several seeds did, by the main metric."""

    seed: int
    dev: float | None
    test: float | None


@renamed_fields(said="messages")
@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run: where it is, and how good it is."""

    folder: Path
    task: str
    method: str
    labels: tuple[str, ...]
    columns: Mapping[str, str]
    rows: Mapping[str, int]
    evaluations: Mapping[str, Evaluation]  # dev and test, as far as there are such rows
    seeds: tuple[SeedScore, ...]
    messages: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)  # bad rows by problem
    report: Path | None = None
    seconds: float = 0.0
    cost: Mapping[str, float] = field(default_factory=dict)
    sweep: tuple[LayerScore, ...] = ()  # layers and poolings that were tried, where that was asked for
    baselines: tuple[Any, ...] = ()  # cheap methods on the same rows (`train/baselines.py`)
    machine: Machine | None = None  # that it computed on

    @property
    def measured_on(self) -> str | None:
        """The part whose figures count: test, or dev where there is no test."""
        return next((part for part in ("test", "dev") if part in self.evaluations), None)

    @property
    def main(self) -> str:
        """The metric that counts first."""
        return "" if self.measured_on is None else self.evaluations[self.measured_on].main

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics of that part, each with its interval."""
        return {} if self.measured_on is None else self.evaluations[self.measured_on].metrics

    @property
    def over_seeds(self) -> dict[str, dict[str, float]]:
        """Mean and spread (standard deviation) of the main metric over the seeds, by part."""
        statistics = {}
        for part in ("dev", "test"):
            part_scores = [getattr(score, part) for score in self.seeds]
            defined_scores = [value for value in part_scores if value is not None]
            if len(defined_scores) > 1:
                statistics[part] = {"mean": mean(defined_scores), "spread": stdev(defined_scores)}
        return statistics

    def __repr__(self) -> str:
        part = self.measured_on
        measured = "nothing measured" if part is None else f"{part} {self.evaluations[part].headline}"
        return short_repr("Run", f"{self.task} by {self.method}", measured, f"folder {self.folder}")

    def _repr_html_(self) -> str:
        """The metrics of the parts as a table in a notebook."""

        parts = [part for part in ("test", "dev") if part in self.evaluations]
        names = dict.fromkeys(name for part in parts for name in self.evaluations[part].metrics)
        rows = []
        for name in names:
            row = [name]
            for part in parts:
                metric = self.evaluations[part].metrics.get(name)
                row += (
                    ["", ""]
                    if metric is None
                    else [format_number(metric.value), format_interval(metric.low, metric.high)]
                )
            rows.append(row)
        header = ["metric", *(text for part in parts for text in (part, "95 % interval"))]
        row_counts = [f"{part}: {count:,} rows" for part, count in self.rows.items()]
        notes = [", ".join(row_counts), f"model: {self.folder}", *self.notes]
        return render_table(f"{self.task} by {self.method}", header, rows, notes)

    def to_json(self) -> dict[str, Any]:
        """What `train --json` prints."""
        return {
            "run": str(self.folder),
            "task": self.task,
            "method": self.method,
            "labels": list(self.labels),
            "columns": dict(self.columns),
            "rows": dict(self.rows),
            "measured_on": self.measured_on,
            "metrics": to_json(self.metrics),
            "parts": {part: to_json(entry.metrics) for part, entry in self.evaluations.items()},
            "seeds": [asdict(score) for score in self.seeds],
            "over_seeds": self.over_seeds,
            "notes": list(self.notes),
            "skipped": dict(self.skipped),
            "report": None if self.report is None else str(self.report),
            "seconds": round(self.seconds, 2),
            "cost": dict(self.cost),
            "sweep": [asdict(entry) for entry in self.sweep],
            "baselines": [asdict(entry) for entry in self.baselines],
            "machine": None if self.machine is None else asdict(self.machine),
        }


@dataclass(frozen=True, kw_only=True)
class FittedBaseline:
    """What a cheap method says of the rows that it did not learn from."""

    method: str
    rows: int  # training rows
    logits: Mapping[str, Any]  # by part
    seconds: float


@dataclass(frozen=True, kw_only=True)
class KeptModel:
    """The model that a run keeps, the plan that describes it, and the others that it is compared with."""

    plan: RunPlan
    result: FittedMethod
    logits: Mapping[str, Any]  # of the rows that were held out, by part
    baselines: tuple[FittedBaseline, ...]


def compute_held_out_logits(prepared: PreparedData, fitted: FittedMethod) -> dict[str, Any]:
    """What a fitted model says of the rows that it did not learn from, by part."""
    return {name: fitted.logits(part) for name, part in prepared.parts.items() if name != "train"}


def measure_parts(
    prepared: PreparedData, logits: Mapping[str, Any], plan: RunPlan
) -> tuple[Calibration, dict[str, Evaluation], tuple[str, ...]]:
    """The reading that dev rows suggest, and how good the answers are on dev and test."""
    task, space = prepared.task, prepared.space
    calibration, notes = Calibration(), []
    if "dev" in logits:
        targets = prepared.parts["dev"].targets
        calibration = task.decoding.fit(logits["dev"], targets, space)
        if plan.target_accuracy is not None:
            calibration, note = _fit_abstention(prepared, logits["dev"], calibration, plan.target_accuracy)
            notes.append(note)
    evaluations = {}
    for name, part_logits in logits.items():
        part = prepared.parts[name]
        part_evaluation = evaluate_logits(
            task, space, part_logits, part.targets, calibration, **_describe_rows(prepared, part)
        )
        evaluations[name] = part_evaluation if plan.metric is None else replace(part_evaluation, main=plan.metric)
    if "dev" in logits and plan.method != "majority":
        notes += _warn_constant_answer(prepared, logits["dev"], calibration)
    return calibration, evaluations, tuple(notes)


def _describe_rows(prepared: PreparedData, part: PartRows) -> dict[str, Any]:
    """What an evaluation tells of the rows of a part beside their answers: slices, lengths, rows that were left out."""
    import numpy as np

    table = part.table
    windows = np.bincount(table.window_rows, minlength=len(table))[part.indices]
    if hasattr(table.annotations, "window_counts"):  # options are read one by one
        windows = np.maximum.reduceat(table.annotations.window_counts, table.annotations.bounds[:-1])[part.indices]
    tokens = np.bincount(table.window_rows, weights=table.lengths, minlength=len(table))[part.indices]
    if tokens.any():
        slices: dict[str, Any] = {"length in tokens": tokens.astype(int).tolist()}
    else:  # words were counted, and no tokens
        slices = {"length in characters": [len(first) + len(second or "") for first, second in part.texts()]}
    if prepared.space.kind == "classes":
        slices[part.columns.label or "label"] = [prepared.space.names[target] for target in part.targets]
    return {
        "numbers": part.row_numbers,
        "slices": slices,
        "skipped": {} if table is prepared.parts["train"].table else dict(table.skipped),
        "truncated": int((table.truncated[part.indices] > 0).sum()),
        "windowed": int((windows > prepared.task.rows.passes_per_row).sum()),
    }


def _fit_abstention(
    prepared: PreparedData, logits: Any, calibration: Calibration, target_accuracy: float
) -> tuple[Calibration, str]:
    """The reading with a confidence below which the model rather says nothing."""
    task = prepared.task
    predicted = task.decoding.decode(logits, prepared.space, calibration)
    confidence, is_correct = (
        task.decoding.confidence(predicted),
        task.metrics.is_correct(predicted, prepared.parts["dev"].targets),
    )
    if confidence is None or is_correct is None:
        return calibration, f"{task.name} has no right or wrong, so that it does not abstain."
    operating_point = threshold_for(confidence, is_correct, accuracy=target_accuracy)
    if operating_point is None:
        return (
            calibration,
            f"No confidence gives an accuracy of {target_accuracy:.0%} on the dev rows, so that it never abstains.",
        )
    if operating_point.coverage == 1:
        return (
            calibration,
            f"Every dev row can be answered at an accuracy of {target_accuracy:.0%}, so that it never abstains.",
        )
    coverage = (
        f"answers {operating_point.coverage:.0%} of the dev rows, of which {operating_point.accuracy:.1%} are right"
    )
    note = f"Below a confidence of {operating_point.threshold:.3f} it abstains: it {coverage}."
    return replace(calibration, abstain_below=operating_point.threshold), note


def _warn_constant_answer(prepared: PreparedData, logits: Any, calibration: Calibration) -> list[str]:
    """A sentence when every development row gets the same answer."""
    import numpy as np

    if prepared.space.kind != "classes" or len(logits) < 10:
        return []
    predicted = np.unique(prepared.task.decoding.decode(logits, prepared.space, calibration).labels)
    if len(predicted) > 1:
        return []
    return [
        f"Every dev row is answered with {prepared.space.names[int(predicted[0])]!r}: that is no better than a guess."
    ]


def base_model_name(model: str) -> str:
    """The model that a run started from, as the passport names it: of a folder, its name without its parents."""
    return Path(model).name if Path(model).is_absolute() else model


def make_passport(
    prepared: PreparedData,
    kept: KeptModel,
    calibration: Calibration,
    evaluations: Mapping[str, Evaluation],
    *,
    seeds: list[int],
    max_length: int | None,
    command: str,
    compute_history: ComputeHistory,
) -> TrainingRecord:
    """What the model folder promises about itself."""
    plan, columns, space = kept.plan, prepared.columns, prepared.space
    layer, pooling = kept.result.layer_choice(plan)
    names = {"text": columns.text, "text_b": columns.text_b, "label": columns.label, "id": columns.id}
    plan_settings = (
        "dev_share",
        "test_share",
        "metric",
        "C",
        "target_accuracy",
        "threads",
        "both_orders",
        "head_pooling",
    )
    settings = asdict(plan.settings) | {key: getattr(plan, key) for key in plan_settings}
    return TrainingRecord(
        task=prepared.task.name,
        method=plan.method,
        kind=space.kind,
        labels=list(space.names),
        separator=space.separator,
        scheme=space.scheme,
        columns={part: name for part, name in names.items() if name is not None},
        options=list(columns.options),
        max_length=max_length,
        long=plan.long,
        stride=plan.stride or 0,
        layer=layer,
        pooling=[] if pooling is None else list(pooling_modes(pooling.split("+"))),
        temperature=calibration.temperature,
        thresholds=list(calibration.thresholds),
        abstain_below=calibration.abstain_below,
        no_answer=calibration.no_answer,
        max_answer=plan.max_answer,
        max_tokens=plan.max_tokens,
        base=base_model_name(plan.model) if plan.method not in ("tfidf", "majority") else "",
        data={name: part.fingerprint() for name, part in prepared.parts.items()},
        seeds=seeds,
        settings=settings,
        versions=versions(),
        metrics={name: to_json(evaluated.metrics) for name, evaluated in evaluations.items()},
        command=command,
        machine=compute_history.machine,
        resumed_on=list(compute_history.resumed_on),
    )


def write_split(folder: Path, prepared: PreparedData) -> None:
    """Which rows of the training source were held out, by their numbers: `evaluate --part test` finds them again."""
    source = prepared.parts["train"].source
    held_out = {name: part.row_numbers.tolist() for name, part in prepared.parts.items() if name != "train"}
    same_source = {name: held_out[name] for name in held_out if prepared.parts[name].source is source}
    write_json(folder / SPLIT_FILE, {"source": source.name, "parts": same_source})


def write_metrics(
    folder: Path,
    evaluations: Mapping[str, Evaluation],
    seeds: tuple[SeedScore, ...],
    sweep: tuple[LayerScore, ...] = (),
) -> None:
    """Everything that was measured, for scripts."""
    content: dict[str, Any] = {"parts": {name: evaluated.to_json() for name, evaluated in evaluations.items()}}
    content["seeds"] = [asdict(score) for score in seeds]
    if sweep:
        content["sweep"] = [asdict(evaluated) for evaluated in sweep]
    write_json(folder / METRICS_FILE, content)
