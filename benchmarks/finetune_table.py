"""The results of benchmarks/finetune.py: metrics of predictions, and the table of stored runs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from finetune_tasks import SIDES, Record, Task, run_path

from clearhead.metrics import (
    Interval,
    accuracy,
    answer_scores,
    bootstrap,
    count_entities,
    entity_f1,
    extract_entities,
    f1,
    matthews_corrcoef,
    pearson,
    spearman,
)
from clearhead.metrics.answers import mean

METRICS: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "matthews": matthews_corrcoef,
    "f1": partial(f1, average="binary"),  # the positive label sorts last: "1"
    "pearson": pearson,
    "spearman": spearman,
}


@dataclass(frozen=True, kw_only=True)
class MetricInputs:
    """A metric and its inputs, one entry per row, so that rows can be resampled."""

    metric: Callable[..., float]
    arrays: tuple[np.ndarray, ...]

    @property
    def value(self) -> float:
        """The metric over all rows."""
        return float(self.metric(*self.arrays))


def as_numbers(answers: Sequence[Any], labels: Sequence[str] | None) -> np.ndarray:
    """Convert labels to their index in `labels`; scores are kept."""
    if labels is None:
        return np.array(answers, np.float64)
    label_indices = {label: index for index, label in enumerate(labels)}
    return np.array([label_indices[answer] for answer in answers], np.int64)


def prepare_metric(
    task: Task, metric: str, truth: list[Any], predictions: list[Any], labels: list[str] | None
) -> MetricInputs:
    """Prepare labels, scores, entity counts per sentence or answer scores for a metric."""
    if task.kind == "tag":
        counts = count_entities(
            [extract_entities(tags) for tags in truth], [extract_entities(tags) for tags in predictions]
        )
        return MetricInputs(metric={"f1": entity_f1}[metric], arrays=(counts.array.sum(1, keepdims=True),))
    if task.kind == "span":
        exact_matches, f1_scores = answer_scores(predictions, truth)
        return MetricInputs(metric=mean, arrays=({"exact_match": exact_matches, "f1": f1_scores}[metric],))
    return MetricInputs(metric=METRICS[metric], arrays=(as_numbers(truth, labels), as_numbers(predictions, labels)))


def compute_scores(task: Task, truth: list[Any], predictions: list[Any], labels: list[str] | None) -> dict[str, float]:
    """Compute all metrics of a task."""
    return {name: prepare_metric(task, name, truth, predictions, labels).value for name in task.metrics}


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A task and metric in the table."""

    name: str
    metric: str
    runs: dict[str, list[Record]]  # by side, in the order of seeds
    difference: Interval | None  # over the seeds that both sides have
    verdict: str

    def cells(self) -> list[str]:
        """Format the cells in the order of HEADER, without the command."""
        means, cpu_seconds = [], []
        for records in (self.runs[side] for side in SIDES):
            scores = [record["scores"][self.metric] for record in records]
            spread = f" +- {statistics.stdev(scores):.4f}" if len(scores) > 1 else ""
            means.append(f"{statistics.mean(scores):.4f}{spread} (n={len(scores)})" if scores else "-")
            cpu_seconds.append(
                f"{statistics.mean(record['cpu_seconds'] for record in records):.0f}" if records else "-"
            )
        difference = self.difference
        difference_text = (
            "-" if difference is None else f"{difference.value:+.4f} ({difference.low:+.4f} to {difference.high:+.4f})"
        )
        return [self.name, self.metric, *means, difference_text, self.verdict, " / ".join(cpu_seconds)]


HEADER = ["task", "metric", "peer", "clearhead", "difference", "verdict", "CPU s peer / clearhead", "command"]


def make_row(task: Task, metric: str, runs: dict[str, list[Record]], draws: int = 2000) -> TableRow:
    """Compare the stored runs of a task by one of its metrics."""
    seeds = sorted({record["seed"] for record in runs["peer"]} & {record["seed"] for record in runs["clearhead"]})
    if not seeds:
        return TableRow(name=task.name, metric=metric, runs=runs, difference=None, verdict="waiting")
    sides = [[record for seed in seeds for record in runs[side] if record["seed"] == seed] for side in SIDES]
    first = sides[0][0]
    for key, mismatch in (
        ("truth", "on different rows"),
        ("labels", "on different rows"),
        ("settings", "with different settings"),
    ):
        if any(record.get(key) != first.get(key) for side in sides for record in side):
            raise SystemExit(f"The runs of {task.name} were measured {mismatch}; move them away and rerun.")
    theirs, ours = (
        [prepare_metric(task, metric, first["truth"], record["predictions"], first["labels"]) for record in side]
        for side in sides
    )
    measure, groups, width = theirs[0].metric, first["groups"], len(theirs[0].arrays)

    def mean_difference(*arrays: np.ndarray) -> float:
        values = [float(measure(*arrays[start : start + width])) for start in range(0, len(arrays), width)]
        return statistics.mean(values[len(seeds) :]) - statistics.mean(values[: len(seeds)])

    all_arrays = [array for inputs in (*theirs, *ours) for array in inputs.arrays]
    difference = bootstrap(mean_difference, *all_arrays, n=draws, groups=groups)
    if len(seeds) > 1:
        verdict = "WORSE" if difference.high < 0 else "better" if difference.low > 0 else "no difference"
    else:
        peer_interval = bootstrap(measure, *theirs[0].arrays, n=draws, groups=groups)
        score = ours[0].value
        position = "BELOW" if score < peer_interval.low else "above" if score > peer_interval.high else "within"
        verdict = f"{position} {peer_interval.low:.4f} to {peer_interval.high:.4f}"
    return TableRow(name=task.name, metric=metric, runs=runs, difference=difference, verdict=verdict)


def make_command(task: Task, runs: dict[str, list[Record]], limit: int | None = None) -> str:
    """Format the command that reproduces the runs of a line."""
    seeds = max((record["seed"] + 1 for records in runs.values() for record in records), default=task.seeds or 3)
    rows = f" --rows {limit}" if limit else ""
    return f"python benchmarks/finetune.py --tasks {task.name} --seeds {seeds}{rows}"


def make_table(tasks: list[Task], out: Path, seeds: int, limit: int | None = None) -> str:
    """Format the stored runs of all tasks and metrics as a Markdown table, with the command of each."""
    rows = [HEADER, ["---"] * len(HEADER)]
    for task in tasks:
        paths = {side: [run_path(out, task.name, side, seed, limit) for seed in range(seeds)] for side in SIDES}
        runs = {side: [json.loads(path.read_text()) for path in paths[side] if path.is_file()] for side in SIDES}
        command_text = f"`{make_command(task, runs, limit)}`"
        rows += [[*make_row(task, metric, runs).cells(), command_text] for metric in task.metrics]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
