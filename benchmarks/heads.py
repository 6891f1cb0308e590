"""What a new classification head should read: the first token's state or the mean of all states.

    python benchmarks/heads.py [--tasks sst2,trec] [--rows 500,2000,all] [--seeds 3] [--heads first,mean,peer]
    python benchmarks/heads.py --table          # from the runs that are there, in Markdown

Every run fine-tunes the default model with a rate of 5e-5 and the epochs that the table shows, without dev rows, and
is measured once, after its last epoch, on the same held-out rows (at most 1,000). Heads are compared in pairs: a seed
draws the training rows and starts the run, the same for each head, in the same precision (float32, or `--precision
bf16` in half the time where the CPU has it). `peer` is a plain `transformers` loop with as many epochs. A
finished run is a line of benchmarks/results/heads.jsonl; a rerun skips it. CLEARHEAD_DATA is the folder of data sets.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from dataclasses import replace
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

from finetune_tasks import Row, Rows, Task, data_folder, label_names, read_rows, truth_of
from run_records import append_record, read_records

from clearhead.data.split import sample_rows

OUT = Path(__file__).resolve().parent / "results" / "heads.jsonl"  # committed: the table of docs/results.md
HEADS = ("first", "mean", "peer")
MEASURED = 1000  # held-out rows, at most
LONGEST = 64  # tokens: longer texts are cut on both sides
ALL = "all"
RATE = 5e-5


def _task(name: str, dev: str | None, **more: Any) -> Task:
    return Task(name=name, train=f"{name}/train.tsv", dev=dev and f"{name}/{dev}", **more)


PAIR: dict[str, Any] = {"text": "sentence1", "text_b": "sentence2"}
TASKS = {
    task.name: task
    for task in (
        _task("sst2", "dev.tsv", kind="classify", text="sentence"),
        _task("trec", None, kind="classify", text="question", label="coarse"),
        _task("banking77", None, kind="classify", text="text"),
        replace(_task("ag_news", None, kind="classify", text="description"), train="ag_news/train.tsv.gz"),
        _task("mrpc", "dev.tsv", kind="pair", **PAIR),
        _task("stsb", "dev.tsv", kind="regress", label="score", metrics=("pearson",), **PAIR),
    )
}


def load(task: Task, rows: str, seed: int) -> Rows:
    """The training rows that a seed draws, and the held-out ones, which are always the same."""
    every = _rows(task, task.train)
    if task.dev is None:
        held = set(sample_rows(len(every), MEASURED).tolist())
        train = [row for place, row in enumerate(every) if place not in held]
        measure = [every[place] for place in sorted(held)]
    else:
        train, measure = every, _rows(task, task.dev)
        measure = [measure[place] for place in sample_rows(len(measure), MEASURED)]
    if rows != ALL:
        train = [train[place] for place in sample_rows(len(train), int(rows), seed)]
    return Rows(train=train, choose=[], measure=measure)


def _rows(task: Task, place: str) -> list[Row]:
    columns = [column for column in (task.text, task.text_b, task.label) if column]
    kept = [{column: row[column] for column in columns} for row in read_rows(data_folder() / place)]
    return [row | {task.label: float(row[task.label])} for row in kept] if task.kind == "regress" else kept


def settings_of(task: Task, rows: Rows) -> dict[str, Any]:
    """Epochs and rates as `clearhead train` chose them when the first runs were measured, the same for all."""
    steps = max(120, 25 * len(label_names(task, rows) or "12"))
    epochs = min(max(ceil(steps * 32 / len(rows.train)), 3), 20)
    return {"epochs": epochs, "learning_rate": RATE, "head_learning_rate": 20 * RATE if epochs > 3 else None}


def ours(task: Task, rows: Rows, seed: int, head: str, precision: str) -> list[Any]:
    """The answers of clearhead with a head that reads the first token or the mean."""
    import clearhead
    from clearhead.predict.loading import load_predictor

    verbs: Any = clearhead
    columns = {"text": task.text, "text_b": task.text_b, "label": task.label}
    with tempfile.TemporaryDirectory() as place:
        run = verbs.train(
            rows.train,
            task=task.kind,
            **columns,
            head_pooling=head,
            seed=seed,
            output=Path(place) / "model",
            **settings_of(task, rows),
            dev_share=0.0,
            test_share=0.0,
            baselines=False,
            max_length=LONGEST,
            long="cut",
            precision=precision,
            threads=1,
            report=False,
            save_every=1e9,
        )
        bare = [{key: value for key, value in row.items() if key != task.label} for row in rows.measure]
        said = verbs.predict(load_predictor(run.folder, threads=1), bare)
    return [float(one.value) if task.kind == "regress" else one.label for one in said]


def peer(task: Task, rows: Rows, seed: int, precision: str) -> list[Any]:
    """The answers of a plain transformers loop with as many epochs."""
    import finetune_peers
    import torch
    import transformers

    from clearhead.checkpoint.hub import locate

    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    finetune_peers.MOST_TOKENS = LONGEST
    torch.manual_seed(seed)
    made = finetune_peers.whole_texts(task, rows, locate("default").folder)
    chosen = {
        "epochs": settings_of(task, rows)["epochs"],
        "learning_rate": RATE,
        "batch_size": 32,
        "precision": precision,
    }
    for _ in finetune_peers.epochs(made, chosen, seed):
        pass
    return finetune_peers.answers(made, made.encode(rows.measure))


def score(task: Task, truth: list[Any], said: list[Any]) -> float:
    """Accuracy, or the correlation of numbers."""
    from clearhead.metrics import pearson

    if task.kind == "regress":
        return float(pearson(truth, said))
    return float(statistics.mean(one == other for one, other in zip(truth, said, strict=True)))


def run(task: Task, size: str, seed: int, head: str, precision: str) -> dict[str, Any]:
    """One run as a line of the file."""
    rows = load(task, size, seed)
    wall, cpu = time.perf_counter(), time.process_time()
    said = peer(task, rows, seed, precision) if head == "peer" else ours(task, rows, seed, head, precision)
    return {
        "task": task.name,
        "rows": size,
        "seed": seed,
        "head": head,
        "metric": task.metrics[0],
        "score": score(task, truth_of(task, rows.measure), said),
        "train_rows": len(rows.train),
        "measured_rows": len(rows.measure),
        "epochs": settings_of(task, rows)["epochs"],
        "seconds": round(time.perf_counter() - wall, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "precision": precision,
        "digest": rows.digest(),
    }


def finished(out: Path) -> dict[tuple[str, str, int, str], dict[str, Any]]:
    """The runs that are there; the first ones did not note that they were in float32."""
    records = read_records(out, ("task", "rows", "seed", "head"))
    return {key: {"precision": "float"} | record for key, record in records.items()}


def table(records: dict[tuple[str, str, int, str], dict[str, Any]], tasks: list[str], sizes: list[str]) -> str:
    """Means over the seeds that both heads have, and the differences between them, in Markdown."""
    names = ["task", "metric", "rows", "epochs", "seeds", "precision"]
    names += ["first", "mean", "mean - first (range)", "plain transformers"]
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for size in sizes:
        for task in tasks:
            by: dict[str, dict[int, dict[str, Any]]] = {head: {} for head in HEADS}
            for (name, rows, seed, head), record in records.items():
                if (name, rows) == (task, size) and head in by:
                    by[head][seed] = record
            seeds = sorted(by["first"].keys() & by["mean"].keys())
            if not seeds:
                continue
            one = by["mean"][seeds[0]]
            for key, what in (("digest", "rows"), ("precision", "precisions")):
                if any(by["first"][seed][key] != by["mean"][seed][key] for seed in seeds):
                    raise SystemExit(f"The runs of {task} are of different {what}; move the file away and run again.")
            precisions = dict.fromkeys(by["mean"][seed]["precision"] for seed in seeds)
            gaps = [by["mean"][seed]["score"] - by["first"][seed]["score"] for seed in seeds]
            means = [f"{statistics.mean(by[head][seed]['score'] for seed in seeds):.4f}" for head in HEADS[:2]]
            theirs = [by["peer"][seed]["score"] for seed in seeds if seed in by["peer"]]
            beside = "-" if not theirs else f"{statistics.mean(theirs):.4f}"
            beside += f" ({len(theirs)} of {len(seeds)} seeds)" if theirs and len(theirs) < len(seeds) else ""
            between = f"{statistics.mean(gaps):+.4f} ({min(gaps):+.4f} to {max(gaps):+.4f})"
            cells = [task, one["metric"], f"{one['train_rows']:,}", one["epochs"], len(seeds), ", ".join(precisions)]
            cells += [*means, between, beside]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, the cheapest first, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(TASKS), help=f"of {', '.join(TASKS)}, commas between them")
    parser.add_argument("--rows", default=f"500,2000,{ALL}", help="training rows, commas between them")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--heads", default=",".join(HEADS), help=f"of {', '.join(HEADS)}")
    parser.add_argument("--precision", default="float", choices=("float", "bf16"))
    parser.add_argument("--out", type=Path, default=OUT, help="file of the finished runs")
    parser.add_argument("--table", action="store_true", help="run nothing, only print the table")
    given = parser.parse_args()
    tasks, sizes, heads = given.tasks.split(","), given.rows.split(","), given.heads.split(",")
    for kind, asked, known in (("task", tasks, TASKS), ("head", heads, HEADS)):
        for name in asked:
            if name not in known:
                parser.error(f"{name!r} is no {kind}; there are {', '.join(known)}")
    for size in sizes:
        if size != ALL and not size.isdigit():
            parser.error(f"rows are numbers or {ALL}, got {size!r}")
    todo = [] if given.table else list(product(sizes, range(given.seeds), tasks, heads))
    for size, seed, name, head in todo:
        if (name, size, seed, head) in finished(given.out):
            continue
        record = run(TASKS[name], size, seed, head, given.precision)
        append_record(given.out, record)
        print(", ".join(f"{key} {value}" for key, value in record.items() if key != "digest"), flush=True)
    print(table(finished(given.out), tasks, sizes))


if __name__ == "__main__":
    main()
