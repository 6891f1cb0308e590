"""What came out of benchmarks/finetune.py: metrics of answers, and the table of stored runs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from finetune_tasks import SIDES, Record, Task, stored

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
    "f1": partial(f1, average="binary"),  # of the label that sorts last: "1"
    "pearson": pearson,
    "spearman": spearman,
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A metric and what it takes, an entry for each row, so that rows can be drawn again."""

    metric: Callable[..., float]
    arrays: tuple[np.ndarray, ...]

    @property
    def value(self) -> float:
        """The metric of all rows."""
        return float(self.metric(*self.arrays))


def as_numbers(answers: Sequence[Any], labels: Sequence[str] | None) -> np.ndarray:
    """Scores as they are, labels by their place in `labels`."""
    if labels is None:
        return np.array(answers, np.float64)
    place = {label: number for number, label in enumerate(labels)}
    return np.array([place[answer] for answer in answers], np.int64)


def measured(task: Task, metric: str, truth: list[Any], said: list[Any], labels: list[str] | None) -> Measured:
    """Labels or scores in pairs; of tags, the entities of each sentence counted; of answers, a score each."""
    if task.kind == "tag":
        counts = count_entities([extract_entities(tags) for tags in truth], [extract_entities(tags) for tags in said])
        return Measured(metric={"f1": entity_f1}[metric], arrays=(counts.array.sum(1, keepdims=True),))
    if task.kind == "span":
        matched, shared = answer_scores(said, truth)
        return Measured(metric=mean, arrays=({"exact_match": matched, "f1": shared}[metric],))
    return Measured(metric=METRICS[metric], arrays=(as_numbers(truth, labels), as_numbers(said, labels)))


def scores(task: Task, truth: list[Any], said: list[Any], labels: list[str] | None) -> dict[str, float]:
    """All metrics of a task."""
    return {name: measured(task, name, truth, said, labels).value for name in task.metrics}


@dataclass(frozen=True, kw_only=True)
class Line:
    """A task's line in the table."""

    name: str
    metric: str
    runs: dict[str, list[Record]]  # by side, in the order of seeds
    difference: Interval | None  # of the runs whose seed both sides have
    verdict: str

    def cells(self) -> list[str]:
        """The line's texts, in the order of HEADER but for the last."""
        means, spent = [], []
        for some in (self.runs[side] for side in SIDES):
            found = [record["scores"][self.metric] for record in some]
            spread = f" +- {statistics.stdev(found):.4f}" if len(found) > 1 else ""
            means.append(f"{statistics.mean(found):.4f}{spread} (n={len(found)})" if found else "-")
            spent.append(f"{statistics.mean(record['cpu_seconds'] for record in some):.0f}" if some else "-")
        gap = self.difference
        shown = "-" if gap is None else f"{gap.value:+.4f} ({gap.low:+.4f} to {gap.high:+.4f})"
        return [self.name, self.metric, *means, shown, self.verdict, " / ".join(spent)]


HEADER = ["task", "metric", "peer", "clearhead", "difference", "verdict", "CPU s peer / clearhead", "command"]


def line(task: Task, metric: str, runs: dict[str, list[Record]], draws: int = 2000) -> Line:
    """What the stored runs of a task say in one of its metrics."""
    seeds = sorted({record["seed"] for record in runs["peer"]} & {record["seed"] for record in runs["clearhead"]})
    if not seeds:
        return Line(name=task.name, metric=metric, runs=runs, difference=None, verdict="waiting")
    sides = [[record for seed in seeds for record in runs[side] if record["seed"] == seed] for side in SIDES]
    first = sides[0][0]
    for key, what in (("truth", "on different rows"), ("labels", "on different rows"), ("settings", "otherwise")):
        if any(record.get(key) != first.get(key) for side in sides for record in side):
            raise SystemExit(f"The runs of {task.name} were measured {what}; move them away and run again.")
    theirs, mine = (
        [measured(task, metric, first["truth"], record["predictions"], first["labels"]) for record in side]
        for side in sides
    )
    measure, groups, width = theirs[0].metric, first["groups"], len(theirs[0].arrays)

    def gap(*arrays: np.ndarray) -> float:
        found = [float(measure(*arrays[at : at + width])) for at in range(0, len(arrays), width)]
        return statistics.mean(found[len(seeds) :]) - statistics.mean(found[: len(seeds)])

    every = [array for one in (*theirs, *mine) for array in one.arrays]
    difference = bootstrap(gap, *every, n=draws, groups=groups)
    if len(seeds) > 1:
        verdict = "WORSE" if difference.high < 0 else "better" if difference.low > 0 else "no difference"
    else:
        known = bootstrap(measure, *theirs[0].arrays, n=draws, groups=groups)
        reached = mine[0].value
        place = "BELOW" if reached < known.low else "above" if reached > known.high else "within"
        verdict = f"{place} {known.low:.4f} to {known.high:.4f}"
    return Line(name=task.name, metric=metric, runs=runs, difference=difference, verdict=verdict)


def command(task: Task, runs: dict[str, list[Record]], limit: int | None = None) -> str:
    """What makes the runs of a line anew."""
    seeds = max((record["seed"] + 1 for some in runs.values() for record in some), default=task.seeds or 3)
    rows = f" --rows {limit}" if limit else ""
    return f"python benchmarks/finetune.py --tasks {task.name} --seeds {seeds}{rows}"


def table(tasks: list[Task], out: Path, seeds: int, limit: int | None = None) -> str:
    """The lines of all tasks and metrics from the runs that are stored, in Markdown, each with its command."""
    texts = [HEADER, ["---"] * len(HEADER)]
    for task in tasks:
        paths = {side: [stored(out, task.name, side, seed, limit) for seed in range(seeds)] for side in SIDES}
        runs = {side: [json.loads(path.read_text()) for path in paths[side] if path.is_file()] for side in SIDES}
        again = f"`{command(task, runs, limit)}`"
        texts += [[*line(task, metric, runs).cells(), again] for metric in task.metrics]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in texts)
