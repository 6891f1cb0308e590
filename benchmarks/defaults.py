"""The default settings of `clearhead train` compared with other choices, on ten datasets, three sizes and three seeds.

    python benchmarks/defaults.py [--tasks trec,stsb] [--rows 8-shot,200,1000,4000] [--seeds 3] [--choices default]
    python benchmarks/defaults.py --tasks rte,snli,cola,imdb,trec_fine    # not used to choose any setting
    python benchmarks/defaults.py --table       # Markdown table of the stored runs

A run gets what a user's file would contain: rows sampled by the seed, of which `train` holds out a tenth to choose the
epoch. It is measured once, on rows that no run sees (at most 1,000, with labels that occur in the training rows).
Choices: `default`; `finetune`, always; `patience`, the same with early stopping after two epochs; `before`, learning
rate and epochs of earlier versions (5e-5 for every model), all else as today; `probe`, with a head that is fitted
first; `features`, frozen; `majority`. A finished run is a line of benchmarks/results/defaults.jsonl; a rerun skips it.
CLEARHEAD_DATA is the folder of datasets.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

from finetune_tasks import Row, data_folder, read_rows
from run_records import append_record, read_records

from clearhead.data.split import sample_rows

OUT = Path(__file__).resolve().parent / "results" / "defaults.jsonl"
MAX_HELD_OUT = 1000  # rows
MAX_LENGTH = 128  # tokens; longer texts are truncated
SHOTS = "-shot"  # a number of rows per class instead of a total
RunKey = tuple[str, str, int, str, str]


@dataclass(frozen=True, kw_only=True)
class EvaluationDataset:
    """The files and columns of a task, and its metric."""

    name: str
    task: str
    metric: str
    train: str
    held_out: str | None = None  # None: sampled from the training file
    columns: Mapping[str, str]


def _pair_dataset(name: str, **overrides: Any) -> EvaluationDataset:
    columns = {"text": "sentence1", "text_b": "sentence2", "label": "label"} | overrides.pop("columns", {})
    fields: dict[str, Any] = {"task": "pair", "metric": "accuracy", "train": f"{name}/train.tsv", "columns": columns}
    return EvaluationDataset(name=name, **(fields | {"held_out": f"{name}/dev.tsv"} | overrides))


def _text_dataset(name: str, text: str, label: str = "label", **overrides: Any) -> EvaluationDataset:
    fields: dict[str, Any] = {"task": "classify", "metric": "accuracy", "train": f"{name}/train.tsv"}
    return EvaluationDataset(name=name, columns={"text": text, "label": label}, **(fields | overrides))


DATASETS = {
    one.name: one
    for one in (
        _text_dataset("sst2", "sentence", held_out="sst2/dev.tsv"),
        _text_dataset("trec", "question", "coarse"),
        _text_dataset("banking77", "text"),
        _text_dataset("ag_news", "description", train="ag_news/train.tsv.gz"),
        _text_dataset("sms_spam", "text"),
        _pair_dataset("mrpc"),
        _pair_dataset(
            "quora", train="quora/dev.tsv.gz", held_out=None, columns={"text": "question1", "text_b": "question2"}
        ),
        _pair_dataset("stsb", task="regress", metric="spearman", columns={"label": "score"}),
        _pair_dataset("sick", task="regress", metric="spearman", columns={"label": "relatedness"}),
        EvaluationDataset(
            name="conll2003",
            task="tag",
            metric="f1",
            train="conll2003/train.conll.gz",
            held_out="conll2003/valid.conll.gz",
            columns={},
        ),
        EvaluationDataset(
            name="wnut17", task="tag", metric="f1", train="wnut17/train.conll", held_out="wnut17/dev.conll", columns={}
        ),
    )
}
UNTOUCHED = {  # not used to choose any setting or rule
    one.name: one
    for one in (
        _text_dataset("cola", "sentence", held_out="cola/dev.tsv"),
        _text_dataset("imdb", "text", train="imdb/train.tsv.gz"),
        _text_dataset("trec_fine", "question", "fine", train="trec/train.tsv"),
        _pair_dataset("rte"),
        _pair_dataset("snli", train="snli/dev.tsv.gz", held_out=None),
    )
}
ALL_DATASETS = DATASETS | UNTOUCHED
CHOICES = ("default", "finetune", "patience", "before", "probe", "features", "majority")


def load_rows(dataset: EvaluationDataset, rows: str, seed: int) -> tuple[list[Row], list[Row]]:
    """Sample the training rows by the seed; the held-out rows are the same for every seed."""
    rows_of_file = read_dataset_rows(dataset, dataset.train)
    if dataset.held_out is None:
        held_out = set(sample_rows(len(rows_of_file), MAX_HELD_OUT).tolist())
        train = [row for row_index, row in enumerate(rows_of_file) if row_index not in held_out]
        held_out_rows = [rows_of_file[row_index] for row_index in sorted(held_out)]
    else:
        train, held_out_rows = rows_of_file, read_dataset_rows(dataset, dataset.held_out)
        held_out_rows = [held_out_rows[row_index] for row_index in sample_rows(len(held_out_rows), MAX_HELD_OUT)]
    if rows.endswith(SHOTS):
        train = sample_few_shots(train, dataset.columns["label"], int(rows.removesuffix(SHOTS)), seed)
    else:
        train = [train[row_index] for row_index in sample_rows(len(train), int(rows), seed)]
    if dataset.task in ("classify", "pair"):  # labels without a training row cannot be predicted
        label = dataset.columns["label"]
        train_labels = {row[label] for row in train}
        held_out_rows = [row for row in held_out_rows if row[label] in train_labels]
    return train, held_out_rows


def sample_few_shots(rows: list[Row], label: str, shots: int, seed: int) -> list[Row]:
    """Sample the same number of rows of each class."""
    counts: Counter[str] = Counter()
    sampled = []
    for row in random.Random(seed).sample(rows, len(rows)):
        counts[row[label]] += 1
        if counts[row[label]] <= shots:
            sampled.append(row)
    return sampled


def read_dataset_rows(dataset: EvaluationDataset, file: str) -> list[Row]:
    """Read the relevant columns of a file; scores as floats, sentences as tokens and tags."""
    if dataset.task == "tag":
        return read_sentences(data_folder() / file)
    rows = [{column: row[column] for column in dataset.columns.values()} for row in read_rows(data_folder() / file)]
    label = dataset.columns["label"]
    return [row | {label: float(row[label])} for row in rows] if dataset.task == "regress" else rows


def read_sentences(path: Path) -> list[Row]:
    """Read the tokens and tags (last column) of a column file, gzipped or not."""
    if not path.exists():  # some files are gzipped, some are not
        path = path.with_suffix("") if path.suffix == ".gz" else path.with_name(path.name + ".gz")
    if not path.exists():
        raise SystemExit(f"{path} not found; set CLEARHEAD_DATA to the folder of datasets.")
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    rows: list[Row] = []
    for block in text.split("\n\n"):
        columns = [line.split("\t") for line in block.splitlines() if line.strip()]
        if columns:
            rows.append({"tokens": [column[0] for column in columns], "tags": [column[-1] for column in columns]})
    return rows


def choose_settings(choice: str, dataset: EvaluationDataset, train: list[Row]) -> dict[str, Any]:
    """Choose the settings that are passed to `train`."""
    if choice in ("finetune", "features", "majority"):
        return {"method": choice}
    if choice == "before":
        labels = {str(row[dataset.columns["label"]]) for row in train} if dataset.task in ("classify", "pair") else "12"
        epochs = min(max(ceil(max(120, 25 * len(labels)) * 32 / max(0.9 * len(train), 1)), 3), 20)
        return {
            "method": "finetune",
            "learning_rate": 5e-5,
            "epochs": epochs,
            "head_learning_rate": 1e-3 if epochs > 3 else None,
        }
    if choice == "patience":
        return {"method": "finetune", "patience": 2}
    return {"method": "finetune", "head_start": "probe"} if choice == "probe" else {}


def run(dataset: EvaluationDataset, rows: str, seed: int, choice: str, model: str, precision: str) -> dict[str, Any]:
    """Train and evaluate once; returns the record to store."""
    import clearhead

    verbs: Any = clearhead
    train, held_out_rows = load_rows(dataset, rows, seed)
    wall, cpu = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        result = verbs.train(
            train,
            task=dataset.task,
            model=model,
            seed=seed,
            output=Path(folder) / "model",
            test_share=0.0,
            max_length=MAX_LENGTH,
            long="cut",
            precision=precision,
            threads=1,
            report=False,
            baselines=choice in ("default", "finetune"),
            **dataset.columns,
            **choose_settings(choice, dataset, train),
        )
        seconds = round(time.perf_counter() - wall, 1), round(time.process_time() - cpu, 1)
        score = verbs.evaluate(result.folder, held_out_rows).metrics[dataset.metric].value
        settings = json.loads((result.folder / "run.json").read_text())["plan"]["settings"]
    baselines = {baseline.method: [baseline.value, asdict(baseline.difference)] for baseline in result.baselines}
    dev = result.evaluations["dev"].metrics[dataset.metric].value if "dev" in result.evaluations else None
    return {
        "task": dataset.name,
        "rows": rows,
        "seed": seed,
        "choice": choice,
        "model": model,
        "metric": dataset.metric,
        "method": result.method,
        "score": float(score),
        "train_rows": len(train),
        "measured_rows": len(held_out_rows),
        "epochs": settings["epochs"],
        "rate": settings["learning_rate"],
        "precision": precision,
        "seconds": seconds[0],
        "cpu_seconds": seconds[1],
        "kept": next((note for note in result.notes if note.startswith("Kept ")), ""),
        "dev_rows": result.rows.get("dev", 0),
        "dev": dev,
        "dev_baselines": baselines,
    }


def read_finished_runs(out: Path) -> dict[RunKey, dict[str, Any]]:
    """Read the stored runs."""
    return read_records(out, ("task", "rows", "seed", "choice", "model"))


def make_tables(records: Mapping[RunKey, Mapping[str, Any]], model: str) -> str:
    """Format one table of the datasets that settings were chosen on, and one of the others."""
    sections = []
    for title, names in (("Datasets that settings were chosen on", DATASETS), ("Other datasets", UNTOUCHED)):
        selected = {key: record for key, record in records.items() if key[0] in names and key[4] == model}
        if selected:
            sections.append(f"{title}:\n\n{make_table(selected, model)}")
    return "\n\n".join(sections)


def make_table(records: Mapping[RunKey, Mapping[str, Any]], model: str) -> str:
    """Format means and ranges over the seeds as a Markdown table, one line per dataset and size."""
    listed = [choice for choice in CHOICES if choice != "patience"]  # few runs have it; docs/results.md describes them
    choices = [choice for choice in listed if any(key[3:] == (choice, model) for key in records)]
    lines = [f"| task | metric | rows | {' | '.join(choices)} | CPU seconds, default |"]
    lines.append("|---" * (len(choices) + 4) + "|")
    for task, rows in sorted({(key[0], key[1]) for key in records if key[4] == model}, key=_sort_key):
        cells, seconds, metric = [], "-", ""
        for choice in choices:
            matching = [
                record for key, record in records.items() if (*key[:2], *key[3:]) == (task, rows, choice, model)
            ]
            scores = [record["score"] for record in matching]
            metric = matching[0]["metric"] if matching else metric
            spread = f"{min(scores):.3f} to {max(scores):.3f}, {len(scores)} seeds" if len(scores) > 1 else "1 seed"
            cells.append(f"{statistics.mean(scores):.3f} ({spread})" if scores else "-")
            if choice == "default" and matching:
                seconds = f"{statistics.mean(record['cpu_seconds'] for record in matching):.0f}"
        lines.append(f"| {task} | {metric} | {rows} | {' | '.join(cells)} | {seconds} |")
    return "\n".join(lines)


def _sort_key(key: tuple[str, str]) -> tuple[str, int, int]:
    """Sort by task, few-shot sizes first, then by number of rows."""
    task, rows = key
    return task, not rows.endswith(SHOTS), int(rows.removesuffix(SHOTS))


def main() -> None:
    """Run what is missing, cheapest first, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(DATASETS), help=f"comma-separated: {', '.join(ALL_DATASETS)}")
    parser.add_argument("--rows", default="200,1000,4000", help="comma-separated training sizes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--choices", default=",".join(CHOICES), help=f"comma-separated: {', '.join(CHOICES)}")
    parser.add_argument("--model", default="default")
    parser.add_argument("--precision", default="float", choices=("float", "bf16"))
    parser.add_argument("--out", type=Path, default=OUT, help="file of the finished runs")
    parser.add_argument("--table", action="store_true", help="only print the tables of stored runs")
    arguments = parser.parse_args()
    tasks, choices = arguments.tasks.split(","), arguments.choices.split(",")
    for kind, names, options in (("task", tasks, tuple(ALL_DATASETS)), ("choice", choices, CHOICES)):
        for name in names:
            if name not in options:
                parser.error(f"unknown {kind} {name!r}; available: {', '.join(options)}")
    sizes = arguments.rows.split(",")
    if not all(size.removesuffix(SHOTS).isdigit() and int(size.removesuffix(SHOTS)) > 0 for size in sizes):
        parser.error(f"--rows must be positive integers, or 8{SHOTS} for eight rows per class, got {arguments.rows!r}")
    for size, seed, name, choice in [] if arguments.table else product(sizes, range(arguments.seeds), tasks, choices):
        if choice == "majority" and ALL_DATASETS[name].task in ("tag", "regress"):
            continue
        if size.endswith(SHOTS) and ALL_DATASETS[name].task not in ("classify", "pair"):
            continue
        if (name, size, seed, choice, arguments.model) in read_finished_runs(arguments.out):
            continue
        record = run(ALL_DATASETS[name], size, seed, choice, arguments.model, arguments.precision)
        append_record(arguments.out, record)
        print(", ".join(f"{key} {value}" for key, value in record.items()), flush=True)
    print(make_tables(read_finished_runs(arguments.out), arguments.model))


if __name__ == "__main__":
    main()
