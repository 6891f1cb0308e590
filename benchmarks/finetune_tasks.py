"""The tasks of benchmarks/finetune.py with their rows, columns and settings."""

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
    """The files, columns, settings and metrics of a task."""

    name: str
    kind: str  # classify, pair, regress, tag, span or choice, as clearhead names them
    train: str
    dev: str | None  # None: the training file is split by text
    text: str
    text_b: str | None = None
    label: str = "label"
    options: tuple[str, ...] = ()  # columns, one per option
    group: str | None = None  # rows with the same text in this column are not independent; None: `text`
    metrics: tuple[str, ...] = ("accuracy",)  # the first one chooses the epoch
    seeds: int | None = None  # None: as many as --seeds
    overrides: Mapping[str, Any] = field(default_factory=dict)  # changes and additions to SETTINGS
    sample_sizes: tuple[int | None, int | None] = (None, None)  # rows to train on and to measure; None: all

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of both sides, which are stored with every run."""
        return {**SETTINGS, **self.overrides}


@dataclass(frozen=True, kw_only=True)
class TaskRows:
    """Rows to train on, to choose the epoch and to measure; the last two are the same if the task has a dev file."""

    train: list[Row]
    choose: list[Row]
    measure: list[Row]

    def digest(self) -> str:
        """Hash the rows."""
        return hashlib.sha256(json.dumps([self.train, self.choose, self.measure]).encode()).hexdigest()[:16]


def _pair(name: str, **overrides: Any) -> Task:
    fields = {"kind": "pair", "text": "sentence1", "text_b": "sentence2"} | overrides
    return Task(name=name, train=f"{name}/train.tsv", dev=f"{name}/dev.tsv", **fields)


def _tags(name: str, train: str, dev: str, **overrides: Any) -> Task:
    fields: dict[str, Any] = {"text": "tokens", "label": "tags", "metrics": ("f1",), "overrides": {"max_length": 256}}
    return Task(name=name, kind="tag", train=f"{name}/{train}", dev=f"{name}/{dev}", **fields, **overrides)


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
        _tags("conll2003", "train.conll.gz", "valid.conll", sample_sizes=(4000, None)),
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
            overrides={"epochs": 1, "max_length": 384, "stride": 128, "max_answer": 30},
            sample_sizes=(3000, 1000),
        ),
        Task(
            name="openbookqa",
            kind="choice",
            train="openbookqa/train.tsv",
            dev="openbookqa/dev.tsv",
            text="question",
            options=("choice0", "choice1", "choice2", "choice3"),
            overrides={"max_length": 256},
            sample_sizes=(1500, None),
        ),
    )
}


def data_folder() -> Path:
    """Return the folder of public datasets: CLEARHEAD_DATA, else ../shared/data."""
    return Path(os.environ.get("CLEARHEAD_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def read_rows(path: Path) -> list[Row]:
    """Read TSV with a header and without quoting, JSONL, or CoNLL with the tag in the last column."""
    if not path.is_file():
        raise SystemExit(f"{path} not found; set CLEARHEAD_DATA to the folder that contains {path.parent.name}/.")
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    # only "\n" ends a row: texts may contain other characters that str.splitlines treats as line ends
    lines = text.removesuffix("\n").split("\n")
    suffix = path.name.removesuffix(".gz").rpartition(".")[2]
    if suffix == "jsonl":
        return [json.loads(line) for line in lines]
    if suffix == "conll":
        return _parse_conll(lines)
    names = lines[0].split("\t")
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines[1:]]


def _parse_conll(lines: list[str]) -> list[Row]:
    """Parse one token per line with the tag last, and empty lines between sentences."""
    sentences: list[Row] = []
    is_new_sentence = True
    for line in lines:
        if not line.strip():
            is_new_sentence = True
            continue
        if is_new_sentence:
            sentences.append({"tokens": [], "tags": []})
        is_new_sentence = False
        token, *_, tag = line.split("\t")
        sentences[-1]["tokens"].append(token)
        sentences[-1]["tags"].append(tag)
    return sentences


def load_rows(task: Task, folder: Path, limit: int | None = None) -> TaskRows:
    """Load the relevant columns of a task, scores as floats; at most `limit` rows of each part."""
    columns = [column for column in (task.text, task.text_b, *task.options, task.label) if column]

    def read_part(file: str, sample_size: int | None) -> list[Row]:
        rows = read_rows(folder / file)
        rows = rows if sample_size is None else [rows[file] for file in sample_rows(len(rows), sample_size)]
        selected = [{column: row[column] for column in columns} for row in rows]
        return [row | {task.label: float(row[task.label])} for row in selected] if task.kind == "regress" else selected

    train = read_part(task.train, task.sample_sizes[0])
    if task.dev is None:
        train, choose, measure = split_by_text(train, task.text)
    else:
        choose = measure = read_part(task.dev, task.sample_sizes[1])
    return TaskRows(train=train[:limit], choose=choose[:limit], measure=measure[:limit])


def split_by_text(rows: list[Row], text: str, seed: int = 0) -> tuple[list[Row], list[Row], list[Row]]:
    """Split rows into 70 % to train, 10 % to choose the epoch, 20 % to measure; rows of one text stay together."""
    texts = sorted({row[text] for row in rows})
    random.Random(seed).shuffle(texts)
    tenth_of_text = {text: index * 10 // len(texts) for index, text in enumerate(texts)}  # 0 to 9
    parts: tuple[list[Row], list[Row], list[Row]] = ([], [], [])
    for row in rows:
        tenth = tenth_of_text[row[text]]
        parts[0 if tenth > 2 else 1 if tenth == 0 else 2].append(row)
    return parts


def label_names(task: Task, rows: TaskRows) -> list[str] | None:
    """List the labels or tags of the training rows, or the option numbers; None for scores and answers."""
    if task.kind in ("regress", "span"):
        return None
    if task.kind == "choice":
        return [str(index) for index in range(len(task.options))]
    if task.kind == "tag":
        return sorted({tag for row in rows.train for tag in row[task.label]})
    return sorted({row[task.label] for row in rows.train})


def labels_of(task: Task, rows: list[Row]) -> list[Any]:
    """Extract the expected label, score, tags or answer texts of each row."""
    return [row[task.label]["text"] if task.kind == "span" else row[task.label] for row in rows]


def groups_of(task: Task, rows: list[Row]) -> list[int]:
    """Number the rows by text: rows with the same text are not independent and are resampled together."""
    group_ids: dict[Any, int] = {}
    keys = (row[task.group or task.text] for row in rows)
    return [group_ids.setdefault(key if isinstance(key, str) else tuple(key), len(group_ids)) for key in keys]


def run_path(out: Path, task: str, side: str, seed: int, limit: int | None = None) -> Path:
    """Return the file of a run; runs with limited rows have their own files."""
    return out / (f"{task}-{side}-{seed}" + (f"-rows{limit}" if limit else "") + ".json")
