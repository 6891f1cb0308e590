"""What benchmarks/finetune.py runs and what came out: tasks with their rows and metrics, the table of stored runs."""

from __future__ import annotations

import hashlib
import json
import os
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.metrics import Interval, accuracy, bootstrap, f1, matthews, pearson, spearman

Row = dict[str, Any]
Record = dict[str, Any]
SIDES = ("peer", "clearhead")
METRICS: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "matthews": matthews,
    "f1": partial(f1, average="binary"),  # of the label that sorts last: "1"
    "pearson": pearson,
    "spearman": spearman,
}


@dataclass(frozen=True, kw_only=True)
class Task:
    """Where a task's rows lie, which columns count, and how it is measured."""

    name: str
    kind: str  # classify, pair or regress, as clearhead names them
    train: str
    dev: str | None  # None: the training file is all there is, and it is split by text
    text: str
    text_b: str | None = None
    label: str = "label"
    metrics: tuple[str, ...] = ("accuracy",)  # the first one chooses the epoch and decides
    seeds: int | None = None  # None: as many as are asked for


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What is trained on, what chooses the epoch and what is measured; the last two are one where a dev file exists."""

    train: list[Row]
    choose: list[Row]
    measure: list[Row]

    def digest(self) -> str:
        """A short name for exactly these rows."""
        return hashlib.sha256(json.dumps([self.train, self.choose, self.measure]).encode()).hexdigest()[:16]


def _pair(name: str, **more: Any) -> Task:
    given = {"kind": "pair", "text": "sentence1", "text_b": "sentence2"} | more
    return Task(name=name, train=f"{name}/train.tsv", dev=f"{name}/dev.tsv", **given)


TASKS = {
    task.name: task
    for task in (
        _pair("mrpc", metrics=("f1", "accuracy")),
        _pair("rte"),
        _pair("cola", kind="classify", text="sentence", text_b=None, metrics=("matthews", "accuracy")),
        _pair("stsb", kind="regress", label="score", metrics=("pearson", "spearman")),
        Task(
            name="semeval14",
            kind="pair",
            train="semeval14_absa/restaurants_train.tsv",
            dev=None,
            text="text",
            text_b="aspect",
        ),
        _pair("sst2", kind="classify", text="sentence", text_b=None, seeds=1),  # the long one
    )
}


def data_folder() -> Path:
    """The folder of public data sets: CLEARHEAD_DATA, else ../shared/data."""
    return Path(os.environ.get("CLEARHEAD_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def read_tsv(path: Path) -> list[Row]:
    """The rows of a tab-separated file with a header and no quoting."""
    if not path.is_file():
        raise SystemExit(f"{path} is not there; set CLEARHEAD_DATA to the folder that holds {path.parent.name}/.")
    # only "\n" ends a row: texts may hold other characters that str.splitlines takes for line ends
    header, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    names = header.split("\t")
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines]


def load(task: Task, folder: Path, limit: int | None = None) -> Rows:
    """The rows of a task with the columns that count, scores as numbers, labels as they stand; `limit` of each part."""
    columns = [column for column in (task.text, task.text_b, task.label) if column]

    def trimmed(rows: list[Row]) -> list[Row]:
        kept = [{column: row[column] for column in columns} for row in rows]
        return [row | {task.label: float(row[task.label])} for row in kept] if task.kind == "regress" else kept

    train = trimmed(read_tsv(folder / task.train))
    if task.dev is None:
        train, choose, measure = by_text(train, task.text)
    else:
        choose = measure = trimmed(read_tsv(folder / task.dev))
    return Rows(train=train[:limit], choose=choose[:limit], measure=measure[:limit])


def by_text(rows: list[Row], text: str, seed: int = 0) -> tuple[list[Row], list[Row], list[Row]]:
    """70 % to train, 10 % to choose the epoch, 20 % to measure; rows of one text stay together."""
    texts = sorted({row[text] for row in rows})
    random.Random(seed).shuffle(texts)
    tenths = {name: place * 10 // len(texts) for place, name in enumerate(texts)}  # 0 to 9
    parts: tuple[list[Row], list[Row], list[Row]] = ([], [], [])
    for row in rows:
        tenth = tenths[row[text]]
        parts[0 if tenth > 2 else 1 if tenth == 0 else 2].append(row)
    return parts


def label_names(task: Task, rows: Rows) -> list[str] | None:
    """The labels of the training rows in order; None for scores."""
    return None if task.kind == "regress" else sorted({row[task.label] for row in rows.train})


def as_numbers(answers: Sequence[Any], labels: Sequence[str] | None) -> np.ndarray:
    """Scores as they are, labels by their place in `labels`."""
    if labels is None:
        return np.array(answers, np.float64)
    place = {label: number for number, label in enumerate(labels)}
    return np.array([place[answer] for answer in answers], np.int64)


def scores(task: Task, truth: list[Any], said: list[Any], labels: list[str] | None) -> dict[str, float]:
    """All metrics of a task."""
    pair = as_numbers(truth, labels), as_numbers(said, labels)
    return {name: float(METRICS[name](*pair)) for name in task.metrics}


def groups_of(task: Task, rows: list[Row]) -> list[int]:
    """Rows with the same first text share a number, since they are not independent and must be drawn together."""
    seen: dict[str, int] = {}
    return [seen.setdefault(row[task.text], len(seen)) for row in rows]


def stored(out: Path, task: str, side: str, seed: int, limit: int | None = None) -> Path:
    """Where a run lies; runs of a few rows never stand in for whole ones."""
    return out / (f"{task}-{side}-{seed}" + (f"-rows{limit}" if limit else "") + ".json")


@dataclass(frozen=True, kw_only=True)
class Line:
    """A task's line in the table."""

    name: str
    metric: str
    runs: dict[str, list[Record]]  # by side, in the order of seeds
    difference: Interval | None  # of the runs whose seed both sides have
    verdict: str

    def cells(self) -> list[str]:
        """The line's texts, in the order of HEADER."""
        means, spent = [], []
        for some in (self.runs[side] for side in SIDES):
            found = [record["scores"][self.metric] for record in some]
            spread = f" +- {statistics.stdev(found):.4f}" if len(found) > 1 else ""
            means.append(f"{statistics.mean(found):.4f}{spread} (n={len(found)})" if found else "-")
            spent.append(f"{statistics.mean(record['cpu_seconds'] for record in some):.0f}" if some else "-")
        gap = self.difference
        shown = "-" if gap is None else f"{gap.value:+.4f} ({gap.low:+.4f} to {gap.high:+.4f})"
        return [self.name, self.metric, *means, shown, self.verdict, " / ".join(spent)]


HEADER = ["task", "metric", "peer", "clearhead", "difference", "verdict", "CPU s peer / clearhead"]


def line(task: Task, metric: str, runs: dict[str, list[Record]], draws: int = 2000) -> Line:
    """What the stored runs of a task say in one of its metrics."""
    seeds = sorted({record["seed"] for record in runs["peer"]} & {record["seed"] for record in runs["clearhead"]})
    if not seeds:
        return Line(name=task.name, metric=metric, runs=runs, difference=None, verdict="waiting")
    sides = [[record for seed in seeds for record in runs[side] if record["seed"] == seed] for side in SIDES]
    first = sides[0][0]
    if any(record[key] != first[key] for key in ("truth", "labels") for side in sides for record in side):
        raise SystemExit(f"The runs of {task.name} were measured on different rows; move them away and run again.")
    truth, groups = as_numbers(first["truth"], first["labels"]), first["groups"]
    theirs, mine = ([as_numbers(record["predictions"], record["labels"]) for record in side] for side in sides)
    measure = METRICS[metric]

    def gap(truth: np.ndarray, *said: np.ndarray) -> float:
        found = [float(measure(truth, one)) for one in said]
        return statistics.mean(found[len(seeds) :]) - statistics.mean(found[: len(seeds)])

    difference = bootstrap(gap, truth, *theirs, *mine, n=draws, groups=groups)
    if len(seeds) > 1:
        verdict = "WORSE" if difference.high < 0 else "better" if difference.low > 0 else "no difference"
    else:
        known = bootstrap(measure, truth, theirs[0], n=draws, groups=groups)
        reached = float(measure(truth, mine[0]))
        place = "BELOW" if reached < known.low else "above" if reached > known.high else "within"
        verdict = f"{place} {known.low:.4f} to {known.high:.4f}"
    return Line(name=task.name, metric=metric, runs=runs, difference=difference, verdict=verdict)


def table(tasks: list[Task], out: Path, seeds: int, limit: int | None = None) -> str:
    """The lines of all tasks and metrics from the runs that are stored."""
    texts = [HEADER]
    for task in tasks:
        paths = {side: [stored(out, task.name, side, seed, limit) for seed in range(seeds)] for side in SIDES}
        runs = {side: [json.loads(path.read_text()) for path in paths[side] if path.is_file()] for side in SIDES}
        texts += [line(task, metric, runs).cells() for metric in task.metrics]
    widths = [max(len(cell) for cell in column) for column in zip(*texts, strict=True)]
    return "\n".join("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in texts)
