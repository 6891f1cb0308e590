"""The end of a run: calibrate on the dev rows, evaluate, and write passport and metrics."""

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
from clearhead.machine.cpu import Machine, library_versions
from clearhead.metrics import threshold_for, to_json
from clearhead.model.layers import pooling_modes
from clearhead.tasks.evaluation import Evaluation, evaluate_logits
from clearhead.tasks.task import Calibration

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class SeedScore:
    """The main metric of one of several seeds."""

    seed: int
    dev: float | None
    test: float | None


@renamed_fields(said="messages")
@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run: its folder, what it was trained on, and its metrics."""

    folder: Path
    task: str
    method: str
    labels: tuple[str, ...]
    columns: Mapping[str, str]
    rows: Mapping[str, int]
    evaluations: Mapping[str, Evaluation]  # of dev and test, if there are such rows
    seeds: tuple[SeedScore, ...]
    messages: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)  # bad rows by problem
    report: Path | None = None
    seconds: float = 0.0
    cost: Mapping[str, float] = field(default_factory=dict)
    sweep: tuple[LayerScore, ...] = ()  # scores of a layer sweep
    baselines: tuple[Any, ...] = ()  # BaselineComparison of cheaper methods on the same rows
    machine: Machine | None = None

    @property
    def measured_on(self) -> str | None:
        """The part of the main result: test, or dev if there is no test."""
        return next((part for part in ("test", "dev") if part in self.evaluations), None)

    @property
    def main(self) -> str:
        """The name of the main metric."""
        return "" if self.measured_on is None else self.evaluations[self.measured_on].main

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics of that part, each with its interval."""
        return {} if self.measured_on is None else self.evaluations[self.measured_on].metrics

    @property
    def over_seeds(self) -> dict[str, dict[str, float]]:
        """Mean and standard deviation (`spread`) of the main metric over the seeds, by part."""
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
        """The metrics as an HTML table for notebooks."""

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
        """The run as plain values, which `train --json` prints."""
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
    """A baseline and its logits of the held-out rows."""

    method: str
    rows: int  # training rows
    logits: Mapping[str, Any]  # by part
    seconds: float


@dataclass(frozen=True, kw_only=True)
class KeptModel:
    """The model that a run keeps, its plan, and the baselines that it is compared with."""

    plan: RunPlan
    fitted: FittedMethod
    logits: Mapping[str, Any]  # of the held-out rows, by part
    baselines: tuple[FittedBaseline, ...]


def compute_held_out_logits(prepared: PreparedData, fitted: FittedMethod) -> dict[str, Any]:
    """Compute the logits of the held-out rows, by part."""
    return {name: fitted.logits(part) for name, part in prepared.parts.items() if name != "train"}


def measure_parts(
    prepared: PreparedData, logits: Mapping[str, Any], plan: RunPlan
) -> tuple[Calibration, dict[str, Evaluation], tuple[str, ...]]:
    """Calibrate on the dev rows, and evaluate dev and test: calibration, evaluations and notes."""
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
        notes += _check_constant_answer(prepared, logits["dev"], calibration)
    return calibration, evaluations, tuple(notes)


def _describe_rows(prepared: PreparedData, part: PartRows) -> dict[str, Any]:
    """What an evaluation reports about the rows of a part: slices, truncated and skipped rows."""
    import numpy as np

    table = part.table
    windows = np.bincount(table.window_rows, minlength=len(table))[part.indices]
    if hasattr(table.annotations, "window_counts"):  # every option is encoded separately
        windows = np.maximum.reduceat(table.annotations.window_counts, table.annotations.bounds[:-1])[part.indices]
    tokens = np.bincount(table.window_rows, weights=table.lengths, minlength=len(table))[part.indices]
    if tokens.any():
        slices: dict[str, Any] = {"length in tokens": tokens.astype(int).tolist()}
    else:  # TF-IDF has no tokens
        slices = {"length in characters": [len(first) + len(second or "") for first, second in part.texts()]}
    if prepared.space.kind == "classes":
        slices[part.columns.label or "label"] = [prepared.space.names[target] for target in part.targets]
    return {
        "row_numbers": part.row_numbers,
        "slices": slices,
        "skipped": {} if table is prepared.parts["train"].table else dict(table.skipped),
        "truncated": int((table.truncated[part.indices] > 0).sum()),
        "windowed": int((windows > prepared.task.rows.passes_per_row).sum()),
    }


def _fit_abstention(
    prepared: PreparedData, logits: Any, calibration: Calibration, target_accuracy: float
) -> tuple[Calibration, str]:
    """Set the confidence below which the model abstains, so that the other answers reach the target accuracy."""
    task = prepared.task
    predicted = task.decoding.decode(logits, prepared.space, calibration)
    confidence = task.decoding.confidence(predicted)
    is_correct = task.metrics.is_correct(predicted, prepared.parts["dev"].targets)
    if confidence is None or is_correct is None:
        return calibration, f"{task.name} has no right or wrong answers, so the model never abstains."
    operating_point = threshold_for(confidence, is_correct, accuracy=target_accuracy)
    if operating_point is None:
        note = f"No confidence threshold has a dev accuracy of {target_accuracy:.0%}: the model never abstains."
        return calibration, note
    if operating_point.coverage == 1:
        return (
            calibration,
            f"All dev rows are answered at an accuracy of {target_accuracy:.0%}: the model never abstains.",
        )
    coverage = f"{operating_point.coverage:.0%} of the dev rows, {operating_point.accuracy:.1%} of them correctly"
    note = f"The model abstains below a confidence of {operating_point.threshold:.3f}: it answers {coverage}."
    return replace(calibration, abstain_below=operating_point.threshold), note


def _check_constant_answer(prepared: PreparedData, logits: Any, calibration: Calibration) -> list[str]:
    """A warning if every dev row has the same prediction."""
    import numpy as np

    if prepared.space.kind != "classes" or len(logits) < 10:
        return []
    predicted = np.unique(prepared.task.decoding.decode(logits, prepared.space, calibration).labels)
    if len(predicted) > 1:
        return []
    return [f"All dev rows are predicted as {prepared.space.names[int(predicted[0])]!r}, no better than guessing."]


def format_base_model(model: str) -> str:
    """The name of the base model in the passport; of an absolute path only the last component."""
    return Path(model).name if Path(model).is_absolute() else model


def make_passport(
    prepared: PreparedData,
    kept_model: KeptModel,
    calibration: Calibration,
    evaluations: Mapping[str, Evaluation],
    *,
    seeds: list[int],
    max_length: int | None,
    command: str,
    compute_history: ComputeHistory,
) -> TrainingRecord:
    """The training record of the passport in the model folder."""
    plan, columns, space = kept_model.plan, prepared.columns, prepared.space
    layer, pooling = kept_model.fitted.layer_choice(plan)
    column_names = {"text": columns.text, "text_b": columns.text_b, "label": columns.label, "id": columns.id}
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
        columns={part: name for part, name in column_names.items() if name is not None},
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
        base=format_base_model(plan.model) if plan.method not in ("tfidf", "majority") else "",
        data={name: part.fingerprint() for name, part in prepared.parts.items()},
        seeds=seeds,
        settings=settings,
        versions=library_versions(),
        metrics={name: to_json(evaluated.metrics) for name, evaluated in evaluations.items()},
        command=command,
        machine=compute_history.machine,
        resumed_on=list(compute_history.resumed_on),
    )


def write_split(folder: Path, prepared: PreparedData) -> None:
    """Write the numbers of the held-out rows of the training source, which `evaluate --part test` reads."""
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
    """Write all metrics to metrics.json."""
    content: dict[str, Any] = {"parts": {name: evaluated.to_json() for name, evaluated in evaluations.items()}}
    content["seeds"] = [asdict(score) for score in seeds]
    if sweep:
        content["sweep"] = [asdict(evaluated) for evaluated in sweep]
    write_json(folder / METRICS_FILE, content)
