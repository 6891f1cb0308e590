"""The default settings of `clearhead train` beside other choices, on ten data sets, three sizes and three seeds.

    python benchmarks/defaults.py [--tasks trec,stsb] [--rows 8-shot,200,1000,4000] [--seeds 3] [--choices default]
    python benchmarks/defaults.py --tasks rte,snli,cola,imdb,trec_fine    # on which nothing was chosen
    python benchmarks/defaults.py --table       # from the runs that are there, in Markdown

A run sees what a user's file would hold: rows that a seed draws, from which `train` holds out a tenth to choose the
epoch. It is measured once, on rows that no run sees (at most 1,000, of labels that the training rows have). Choices:
`default`; `finetune`, always; `patience`, the same until two epochs are no better; `before`, rate and epochs of earlier
versions (5e-5 for every model), all else as today; `probe`, a head that is fitted first; `features`, frozen;
`majority`. A finished run is a line of benchmarks/results/defaults.jsonl; a rerun skips it. CLEARHEAD_DATA is the data
folder.
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
MEASURED = 1000  # held-out rows, at most
LONGEST = 128  # tokens: longer texts are cut
SHOTS = "-shot"  # rows of each class, in place of rows in all
Key = tuple[str, str, int, str, str]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Where the rows of a task lie, and the metric that it is measured by."""

    name: str
    task: str
    metric: str
    train: str
    held_out: str | None = None  # None: drawn from the training file
    columns: Mapping[str, str]


def _pairs(name: str, **more: Any) -> Dataset:
    columns = {"text": "sentence1", "text_b": "sentence2", "label": "label"} | more.pop("columns", {})
    said: dict[str, Any] = {"task": "pair", "metric": "accuracy", "train": f"{name}/train.tsv", "columns": columns}
    return Dataset(name=name, **(said | {"held_out": f"{name}/dev.tsv"} | more))


def _texts(name: str, text: str, label: str = "label", **more: Any) -> Dataset:
    said: dict[str, Any] = {"task": "classify", "metric": "accuracy", "train": f"{name}/train.tsv"}
    return Dataset(name=name, columns={"text": text, "label": label}, **(said | more))


DATASETS = {
    one.name: one
    for one in (
        _texts("sst2", "sentence", held_out="sst2/dev.tsv"),
        _texts("trec", "question", "coarse"),
        _texts("banking77", "text"),
        _texts("ag_news", "description", train="ag_news/train.tsv.gz"),
        _texts("sms_spam", "text"),
        _pairs("mrpc"),
        _pairs("quora", train="quora/dev.tsv.gz", held_out=None, columns={"text": "question1", "text_b": "question2"}),
        _pairs("stsb", task="regress", metric="spearman", columns={"label": "score"}),
        _pairs("sick", task="regress", metric="spearman", columns={"label": "relatedness"}),
        Dataset(
            name="conll2003",
            task="tag",
            metric="f1",
            train="conll2003/train.conll.gz",
            held_out="conll2003/valid.conll.gz",
            columns={},
        ),
        Dataset(
            name="wnut17", task="tag", metric="f1", train="wnut17/train.conll", held_out="wnut17/dev.conll", columns={}
        ),
    )
}
UNTOUCHED = {  # no setting and no rule was chosen on these
    one.name: one
    for one in (
        _texts("cola", "sentence", held_out="cola/dev.tsv"),
        _texts("imdb", "text", train="imdb/train.tsv.gz"),
        _texts("trec_fine", "question", "fine", train="trec/train.tsv"),
        _pairs("rte"),
        _pairs("snli", train="snli/dev.tsv.gz", held_out=None),
    )
}
EVERY = DATASETS | UNTOUCHED
CHOICES = ("default", "finetune", "patience", "before", "probe", "features", "majority")


def load(data: Dataset, rows: str, seed: int) -> tuple[list[Row], list[Row]]:
    """The rows that a seed draws, and the held-out ones, which are always the same."""
    every = read(data, data.train)
    if data.held_out is None:
        held = set(sample_rows(len(every), MEASURED).tolist())
        train = [row for number, row in enumerate(every) if number not in held]
        measure = [every[number] for number in sorted(held)]
    else:
        train, measure = every, read(data, data.held_out)
        measure = [measure[number] for number in sample_rows(len(measure), MEASURED)]
    if rows.endswith(SHOTS):
        train = few_shots(train, data.columns["label"], int(rows.removesuffix(SHOTS)), seed)
    else:
        train = [train[number] for number in sample_rows(len(train), int(rows), seed)]
    if data.task in ("classify", "pair"):  # labels that no training row has cannot be answered
        label = data.columns["label"]
        known = {row[label] for row in train}
        measure = [row for row in measure if row[label] in known]
    return train, measure


def few_shots(rows: list[Row], label: str, shots: int, seed: int) -> list[Row]:
    """As many rows of each class, drawn by the seed."""
    counts: Counter[str] = Counter()
    drawn = []
    for row in random.Random(seed).sample(rows, len(rows)):
        counts[row[label]] += 1
        if counts[row[label]] <= shots:
            drawn.append(row)
    return drawn


def read(data: Dataset, file: str) -> list[Row]:
    """The rows of a file, with the columns that count; numbers as numbers, sentences as words and tags."""
    if data.task == "tag":
        return sentences(data_folder() / file)
    rows = [{name: row[name] for name in data.columns.values()} for row in read_rows(data_folder() / file)]
    label = data.columns["label"]
    return [row | {label: float(row[label])} for row in rows] if data.task == "regress" else rows


def sentences(path: Path) -> list[Row]:
    """Sentences of a column file as words and the tags of its last column."""
    if not path.exists():  # some are packed, some are not
        path = path.with_suffix("") if path.suffix == ".gz" else path.with_name(path.name + ".gz")
    if not path.exists():
        raise SystemExit(f"{path} is not there; set CLEARHEAD_DATA to the folder of data sets.")
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    made: list[Row] = []
    for block in text.split("\n\n"):
        cells = [line.split("\t") for line in block.splitlines() if line.strip()]
        if cells:
            made.append({"tokens": [cell[0] for cell in cells], "tags": [cell[-1] for cell in cells]})
    return made


def settings_of(choice: str, data: Dataset, train: list[Row]) -> dict[str, Any]:
    """What is passed to `train` beside the rows."""
    if choice in ("finetune", "features", "majority"):
        return {"method": choice}
    if choice == "before":
        labels = {str(row[data.columns["label"]]) for row in train} if data.task in ("classify", "pair") else "12"
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


def run(data: Dataset, rows: str, seed: int, choice: str, model: str, precision: str) -> dict[str, Any]:
    """One run as a line of the file."""
    import clearhead

    verbs: Any = clearhead
    train, measure = load(data, rows, seed)
    wall, cpu = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        made = verbs.train(
            train,
            task=data.task,
            model=model,
            seed=seed,
            output=Path(folder) / "model",
            test_share=0.0,
            max_length=LONGEST,
            long="cut",
            precision=precision,
            threads=1,
            report=False,
            baselines=choice in ("default", "finetune"),
            **data.columns,
            **settings_of(choice, data, train),
        )
        seconds = round(time.perf_counter() - wall, 1), round(time.process_time() - cpu, 1)
        found = verbs.evaluate(made.folder, measure).metrics[data.metric].value
        plan = json.loads((made.folder / "run.json").read_text())["plan"]["settings"]
    beside = {one.method: [one.value, asdict(one.difference)] for one in made.baselines}
    dev = made.evaluations["dev"].metrics[data.metric].value if "dev" in made.evaluations else None
    return {
        "task": data.name,
        "rows": rows,
        "seed": seed,
        "choice": choice,
        "model": model,
        "metric": data.metric,
        "method": made.method,
        "score": float(found),
        "train_rows": len(train),
        "measured_rows": len(measure),
        "epochs": plan["epochs"],
        "rate": plan["learning_rate"],
        "precision": precision,
        "seconds": seconds[0],
        "cpu_seconds": seconds[1],
        "kept": next((note for note in made.notes if note.startswith("Kept ")), ""),
        "dev_rows": made.rows.get("dev", 0),
        "dev": dev,
        "dev_baselines": beside,
    }


def finished(out: Path) -> dict[Key, dict[str, Any]]:
    """The runs that are there."""
    return read_records(out, ("task", "rows", "seed", "choice", "model"))


def tables(records: Mapping[Key, Mapping[str, Any]], model: str) -> str:
    """A table of the data sets on which settings were chosen, and one of the others."""
    made = []
    for what, names in (("Data sets on which settings were chosen", DATASETS), ("Other data sets", UNTOUCHED)):
        some = {key: record for key, record in records.items() if key[0] in names and key[4] == model}
        if some:
            made.append(f"{what}:\n\n{table(some, model)}")
    return "\n\n".join(made)


def table(records: Mapping[Key, Mapping[str, Any]], model: str) -> str:
    """Means and ranges over the seeds, a line for each data set and size, in Markdown."""
    shown = [choice for choice in CHOICES if choice != "patience"]  # on few lines; docs/results.md has them in words
    chosen = [choice for choice in shown if any(key[3:] == (choice, model) for key in records)]
    lines = [f"| task | metric | rows | {' | '.join(chosen)} | CPU seconds, default |"]
    lines.append("|---" * (len(chosen) + 4) + "|")
    for task, rows in sorted({(key[0], key[1]) for key in records if key[4] == model}, key=_order):
        cells, seconds, metric = [], "-", ""
        for choice in chosen:
            some = [one for key, one in records.items() if (*key[:2], *key[3:]) == (task, rows, choice, model)]
            scores = [one["score"] for one in some]
            metric = some[0]["metric"] if some else metric
            spread = f"{min(scores):.3f} to {max(scores):.3f}, {len(scores)} seeds" if len(scores) > 1 else "1 seed"
            cells.append(f"{statistics.mean(scores):.3f} ({spread})" if scores else "-")
            if choice == "default" and some:
                seconds = f"{statistics.mean(one['cpu_seconds'] for one in some):.0f}"
        lines.append(f"| {task} | {metric} | {rows} | {' | '.join(cells)} | {seconds} |")
    return "\n".join(lines)


def _order(line: tuple[str, str]) -> tuple[str, int, int]:
    """By task, few shots first, then by the number of rows."""
    task, rows = line
    return task, not rows.endswith(SHOTS), int(rows.removesuffix(SHOTS))


def main() -> None:
    """Run what is missing, the cheapest first, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(DATASETS), help=f"of {', '.join(EVERY)}, commas between them")
    parser.add_argument("--rows", default="200,1000,4000", help="rows, commas between them")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--choices", default=",".join(CHOICES), help=f"of {', '.join(CHOICES)}")
    parser.add_argument("--model", default="default")
    parser.add_argument("--precision", default="float", choices=("float", "bf16"))
    parser.add_argument("--out", type=Path, default=OUT, help="file of the finished runs")
    parser.add_argument("--table", action="store_true", help="run nothing, only print the table")
    given = parser.parse_args()
    tasks, choices = given.tasks.split(","), given.choices.split(",")
    for kind, asked, known in (("task", tasks, tuple(EVERY)), ("choice", choices, CHOICES)):
        for name in asked:
            if name not in known:
                parser.error(f"{name!r} is no {kind}; there are {', '.join(known)}")
    sizes = given.rows.split(",")
    if not all(size.removesuffix(SHOTS).isdigit() and int(size.removesuffix(SHOTS)) > 0 for size in sizes):
        parser.error(f"rows are numbers above 0, or 8{SHOTS} for eight of each class, got {given.rows!r}")
    for size, seed, name, choice in [] if given.table else product(sizes, range(given.seeds), tasks, choices):
        if choice == "majority" and EVERY[name].task in ("tag", "regress"):
            continue
        if size.endswith(SHOTS) and EVERY[name].task not in ("classify", "pair"):
            continue
        if (name, size, seed, choice, given.model) in finished(given.out):
            continue
        record = run(EVERY[name], size, seed, choice, given.model, given.precision)
        append_record(given.out, record)
        print(", ".join(f"{key} {value}" for key, value in record.items()), flush=True)
    print(tables(finished(given.out), given.model))


if __name__ == "__main__":
    main()
