"""Pooling of a new classification head: the state of the first token or the mean of all states.

    python benchmarks/heads.py [--tasks sst2,trec] [--rows 500,2000,all] [--seeds 3] [--heads first,mean,peer]
    python benchmarks/heads.py --table          # Markdown table of the stored runs

Every run fine-tunes the default model with a learning rate of 5e-5 and the epochs that the table shows, without dev
rows, and is measured once, after its last epoch, on the same held-out rows (at most 1,000). Heads are compared in
pairs: the seed determines the training rows and the initialization, the same for each head, in the same precision
(float32, or `--precision bf16` in half the time if the CPU supports it). `peer` is a plain `transformers` loop with the
same number of epochs. A finished run is a line of benchmarks/results/heads.jsonl; a rerun skips it. CLEARHEAD_DATA is
the folder of datasets.
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

from finetune_tasks import Row, Task, TaskRows, data_folder, label_names, labels_of, read_rows
from run_records import append_record, read_records

from clearhead.data.split import sample_rows

OUT = Path(__file__).resolve().parent / "results" / "heads.jsonl"  # committed: the table of docs/results.md
HEADS = ("first", "mean", "peer")
MAX_HELD_OUT = 1000  # rows
MAX_LENGTH = 64  # tokens; both sides truncate longer texts
ALL_ROWS = "all"
RATE = 5e-5


def _task(name: str, dev: str | None, **fields: Any) -> Task:
    return Task(name=name, train=f"{name}/train.tsv", dev=dev and f"{name}/{dev}", **fields)


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


def load_rows(task: Task, rows: str, seed: int) -> TaskRows:
    """Sample the training rows by the seed; the held-out rows are the same for every seed."""
    file_rows = _read_columns(task, task.train)
    if task.dev is None:
        held_out = set(sample_rows(len(file_rows), MAX_HELD_OUT).tolist())
        train = [row for index, row in enumerate(file_rows) if index not in held_out]
        held_out_rows = [file_rows[index] for index in sorted(held_out)]
    else:
        train, held_out_rows = file_rows, _read_columns(task, task.dev)
        held_out_rows = [held_out_rows[index] for index in sample_rows(len(held_out_rows), MAX_HELD_OUT)]
    if rows != ALL_ROWS:
        train = [train[index] for index in sample_rows(len(train), int(rows), seed)]
    return TaskRows(train=train, choose=[], measure=held_out_rows)


def _read_columns(task: Task, file: str) -> list[Row]:
    columns = [column for column in (task.text, task.text_b, task.label) if column]
    selected = [{column: row[column] for column in columns} for row in read_rows(data_folder() / file)]
    return [row | {task.label: float(row[task.label])} for row in selected] if task.kind == "regress" else selected


def training_settings(task: Task, rows: TaskRows) -> dict[str, Any]:
    """Choose epochs and learning rates as `clearhead train` did when the first runs were measured."""
    steps = max(120, 25 * len(label_names(task, rows) or "12"))
    epochs = min(max(ceil(steps * 32 / len(rows.train)), 3), 20)
    return {"epochs": epochs, "learning_rate": RATE, "head_learning_rate": 20 * RATE if epochs > 3 else None}


def predict_clearhead(task: Task, rows: TaskRows, seed: int, head: str, precision: str) -> list[Any]:
    """Train with clearhead and a pooling of the head, and predict the held-out rows."""
    import clearhead
    from clearhead.predict.loading import load_predictor

    verbs: Any = clearhead
    columns = {"text": task.text, "text_b": task.text_b, "label": task.label}
    with tempfile.TemporaryDirectory() as folder:
        run = verbs.train(
            rows.train,
            task=task.kind,
            **columns,
            head_pooling=head,
            seed=seed,
            output=Path(folder) / "model",
            **training_settings(task, rows),
            dev_share=0.0,
            test_share=0.0,
            baselines=False,
            max_length=MAX_LENGTH,
            long="cut",
            precision=precision,
            threads=1,
            report=False,
            save_every=1e9,
        )
        unlabeled = [{key: value for key, value in row.items() if key != task.label} for row in rows.measure]
        predictions = verbs.predict(load_predictor(run.folder, threads=1), unlabeled)
    return [float(prediction.value) if task.kind == "regress" else prediction.label for prediction in predictions]


def predict_peer(task: Task, rows: TaskRows, seed: int, precision: str) -> list[Any]:
    """Train with a plain `transformers` loop for the same epochs, and predict the held-out rows."""
    import finetune_peers
    import torch
    import transformers

    from clearhead.checkpoint.hub import locate

    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    finetune_peers.MAX_TOKENS = MAX_LENGTH
    torch.manual_seed(seed)
    peer_model = finetune_peers.make_text_peer(task, rows, locate("default").folder)
    settings = {
        "epochs": training_settings(task, rows)["epochs"],
        "learning_rate": RATE,
        "batch_size": 32,
        "precision": precision,
    }
    for _ in finetune_peers.train_epochs(peer_model, settings, seed):
        pass
    return finetune_peers.predict_rows(peer_model, peer_model.encode(rows.measure))


def compute_score(task: Task, truth: list[Any], predictions: list[Any]) -> float:
    """Compute accuracy, or Pearson's correlation of scores."""
    from clearhead.metrics import pearson

    if task.kind == "regress":
        return float(pearson(truth, predictions))
    return float(statistics.mean(expected == predicted for expected, predicted in zip(truth, predictions, strict=True)))


def run(task: Task, size: str, seed: int, head: str, precision: str) -> dict[str, Any]:
    """Run once; returns the record to store."""
    rows = load_rows(task, size, seed)
    wall, cpu = time.perf_counter(), time.process_time()
    predictions = (
        predict_peer(task, rows, seed, precision)
        if head == "peer"
        else predict_clearhead(task, rows, seed, head, precision)
    )
    return {
        "task": task.name,
        "rows": size,
        "seed": seed,
        "head": head,
        "metric": task.metrics[0],
        "score": compute_score(task, labels_of(task, rows.measure), predictions),
        "train_rows": len(rows.train),
        "measured_rows": len(rows.measure),
        "epochs": training_settings(task, rows)["epochs"],
        "seconds": round(time.perf_counter() - wall, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "precision": precision,
        "digest": rows.digest(),
    }


def read_finished_runs(out: Path) -> dict[tuple[str, str, int, str], dict[str, Any]]:
    """Read the stored runs; the first ones were in float32 and did not record it."""
    records = read_records(out, ("task", "rows", "seed", "head"))
    return {key: {"precision": "float"} | record for key, record in records.items()}


def make_table(records: dict[tuple[str, str, int, str], dict[str, Any]], tasks: list[str], sizes: list[str]) -> str:
    """Format means over the seeds that both heads have, and their differences, as a Markdown table."""
    names = ["task", "metric", "rows", "epochs", "seeds", "precision"]
    names += ["first", "mean", "mean - first (range)", "plain transformers"]
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for size in sizes:
        for task in tasks:
            runs_by_head: dict[str, dict[int, dict[str, Any]]] = {head: {} for head in HEADS}
            for (name, rows, seed, head), record in records.items():
                if (name, rows) == (task, size) and head in runs_by_head:
                    runs_by_head[head][seed] = record
            seeds = sorted(runs_by_head["first"].keys() & runs_by_head["mean"].keys())
            if not seeds:
                continue
            first_record = runs_by_head["mean"][seeds[0]]
            for key, mismatch in (("digest", "rows"), ("precision", "precisions")):
                if any(runs_by_head["first"][seed][key] != runs_by_head["mean"][seed][key] for seed in seeds):
                    raise SystemExit(f"The runs of {task} have different {mismatch}; move the file away and rerun.")
            precisions = dict.fromkeys(runs_by_head["mean"][seed]["precision"] for seed in seeds)
            differences = [runs_by_head["mean"][seed]["score"] - runs_by_head["first"][seed]["score"] for seed in seeds]
            means = [
                f"{statistics.mean(runs_by_head[head][seed]['score'] for seed in seeds):.4f}" for head in HEADS[:2]
            ]
            peer_scores = [runs_by_head["peer"][seed]["score"] for seed in seeds if seed in runs_by_head["peer"]]
            peer_cell = "-" if not peer_scores else f"{statistics.mean(peer_scores):.4f}"
            peer_cell += (
                f" ({len(peer_scores)} of {len(seeds)} seeds)" if peer_scores and len(peer_scores) < len(seeds) else ""
            )
            difference_cell = (
                f"{statistics.mean(differences):+.4f} ({min(differences):+.4f} to {max(differences):+.4f})"
            )
            cells = [
                task,
                first_record["metric"],
                f"{first_record['train_rows']:,}",
                first_record["epochs"],
                len(seeds),
                ", ".join(precisions),
            ]
            cells += [*means, difference_cell, peer_cell]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, cheapest first, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(TASKS), help=f"comma-separated: {', '.join(TASKS)}")
    parser.add_argument("--rows", default=f"500,2000,{ALL_ROWS}", help="comma-separated numbers of training rows")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--heads", default=",".join(HEADS), help=f"comma-separated: {', '.join(HEADS)}")
    parser.add_argument("--precision", default="float", choices=("float", "bf16"))
    parser.add_argument("--out", type=Path, default=OUT, help="file of the stored runs")
    parser.add_argument("--table", action="store_true", help="only print the table of stored runs")
    arguments = parser.parse_args()
    tasks, sizes, heads = arguments.tasks.split(","), arguments.rows.split(","), arguments.heads.split(",")
    for kind, names, options in (("task", tasks, TASKS), ("head", heads, HEADS)):
        for name in names:
            if name not in options:
                parser.error(f"unknown {kind} {name!r}; available: {', '.join(options)}")
    for size in sizes:
        if size != ALL_ROWS and not size.isdigit():
            parser.error(f"--rows must be integers or {ALL_ROWS}, got {size!r}")
    pending = [] if arguments.table else list(product(sizes, range(arguments.seeds), tasks, heads))
    for size, seed, name, head in pending:
        if (name, size, seed, head) in read_finished_runs(arguments.out):
            continue
        record = run(TASKS[name], size, seed, head, arguments.precision)
        append_record(arguments.out, record)
        print(", ".join(f"{key} {value}" for key, value in record.items() if key != "digest"), flush=True)
    print(make_table(read_finished_runs(arguments.out), tasks, sizes))


if __name__ == "__main__":
    main()
