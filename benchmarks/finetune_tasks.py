"""What benchmarks/finetune.py runs: tasks with their rows, columns and settings."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.data.split import sample_rows

Row = dict[str, Any]
Record = dict[str, Any]
SIDES = ("peer", "clearhead")
SETTINGS: dict[str, Any] = {"epochs": 3, "learning_rate": 5e-5, "batch_size": 32, "model": "default"}


@dataclass(frozen=True, kw_only=True)
class Task:
    """Where a task's rows lie, which columns count, how it is trained and how it is measured."""

    name: str
    kind: str  # classify, pair, regress, tag, span or choice, as clearhead names them
    train: str
    dev: str | None  # None: the training file is all there is, and it is split by text
    text: str
    text_b: str | None = None
    label: str = "label"
    options: tuple[str, ...] = ()  # columns that hold one each
    group: str | None = None  # rows with the same text in this column are not independent; None: in the first one
    metrics: tuple[str, ...] = ("accuracy",)  # the first one chooses the epoch and decides
    seeds: int | None = None  # None: as many as are asked for
    own: Mapping[str, Any] = field(default_factory=dict)  # what differs from SETTINGS or is said on top
    draw: tuple[int | None, int | None] = (None, None)  # rows to train on and to measure; None: all

    @property
    def settings(self) -> dict[str, Any]:
        """What both sides train with; kept with every run."""
        return {**SETTINGS, **self.own}


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


def _tags(name: str, train: str, dev: str, **more: Any) -> Task:
    said: dict[str, Any] = {"text": "tokens", "label": "tags", "metrics": ("f1",), "own": {"max_length": 256}}
    return Task(name=name, kind="tag", train=f"{name}/{train}", dev=f"{name}/{dev}", **said, **more)


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
        _tags("conll2003", "train.conll.gz", "valid.conll", draw=(4000, None)),
        _tags("wnut17", "train.conll", "dev.conll"),
        Task(
            name="squad",
            kind="span",
            train="squad/train_sub11877.jsonl.gz",
            dev="squad/dev.jsonl.gz",
            text="question",
            text_b="context",
            label="answers",
            group="context",
            metrics=("f1", "exact_match"),
            own={"epochs": 1, "max_length": 384, "stride": 128, "max_answer": 30},
            draw=(3000, 1000),
        ),
        Task(
            name="openbookqa",
            kind="choice",
            train="openbookqa/train.tsv",
            dev="openbookqa/dev.tsv",
            text="question",
            options=("choice0", "choice1", "choice2", "choice3"),
            own={"max_length": 256},
            draw=(1500, None),
        ),
    )
}


def data_folder() -> Path:
    """The folder of public data sets: CLEARHEAD_DATA, else ../shared/data."""
    return Path(os.environ.get("CLEARHEAD_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def read_rows(path: Path) -> list[Row]:
    """The rows of a file: TSV with a header and no quoting, JSONL, or CoNLL with the tag in the last column."""
    if not path.is_file():
        raise SystemExit(f"{path} is not there; set CLEARHEAD_DATA to the folder that holds {path.parent.name}/.")
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    # only "\n" ends a row: texts may hold other characters that str.splitlines takes for line ends
    lines = text.removesuffix("\n").split("\n")
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    if kind == "jsonl":
        return [json.loads(line) for line in lines]
    if kind == "conll":
        return _sentences(lines)
    names = lines[0].split("\t")
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines[1:]]


def _sentences(lines: list[str]) -> list[Row]:
    """A token a line with its tag last, an empty line between sentences."""
    made: list[Row] = []
    fresh = True
    for line in lines:
        if not line.strip():
            fresh = True
            continue
        if fresh:
            made.append({"tokens": [], "tags": []})
        fresh = False
        token, *_, tag = line.split("\t")
        made[-1]["tokens"].append(token)
        made[-1]["tags"].append(tag)
    return made


def load(task: Task, folder: Path, limit: int | None = None) -> Rows:
    """The rows of a task with the columns that count, scores as numbers, labels as they stand; `limit` of each part."""
    columns = [column for column in (task.text, task.text_b, *task.options, task.label) if column]

    def trimmed(place: str, draw: int | None) -> list[Row]:
        rows = read_rows(folder / place)
        rows = rows if draw is None else [rows[place] for place in sample_rows(len(rows), draw)]
        kept = [{column: row[column] for column in columns} for row in rows]
        return [row | {task.label: float(row[task.label])} for row in kept] if task.kind == "regress" else kept

    train = trimmed(task.train, task.draw[0])
    if task.dev is None:
        train, choose, measure = by_text(train, task.text)
    else:
        choose = measure = trimmed(task.dev, task.draw[1])
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
    """The labels or tags of the training rows in order, options by number; None for scores and answers."""
    if task.kind in ("regress", "span"):
        return None
    if task.kind == "choice":
        return [str(place) for place in range(len(task.options))]
    if task.kind == "tag":
        return sorted({tag for row in rows.train for tag in row[task.label]})
    return sorted({row[task.label] for row in rows.train})


def truth_of(task: Task, rows: list[Row]) -> list[Any]:
    """What is right for each row: a label, a score, tags, or the texts of the right answers."""
    return [row[task.label]["text"] if task.kind == "span" else row[task.label] for row in rows]


def groups_of(task: Task, rows: list[Row]) -> list[int]:
    """Rows with the same text share a number, since they are not independent and must be drawn together."""
    seen: dict[Any, int] = {}
    keys = (row[task.group or task.text] for row in rows)
    return [seen.setdefault(key if isinstance(key, str) else tuple(key), len(seen)) for key in keys]


def stored(out: Path, task: str, side: str, seed: int, limit: int | None = None) -> Path:
    """Where a run lies; runs of a few rows never stand in for whole ones."""
    return out / (f"{task}-{side}-{seed}" + (f"-rows{limit}" if limit else "") + ".json")
