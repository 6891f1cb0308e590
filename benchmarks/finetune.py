"""Fine-tuning quality compared with a plain `transformers` loop: same model, rows, epochs, rate and batch size.

    python benchmarks/finetune.py [--tasks mrpc,squad] [--sides peer,clearhead] [--seeds 3] [--threads 2] [--out FOLDER]
    python benchmarks/finetune.py --table       # Markdown table of the stored runs, with the command of each
    python benchmarks/finetune.py --features    # frozen features and TF-IDF on 2,000 sst2 sentences

Every finished run (task, side, seed) is stored at once as a JSON file with its predictions; a rerun skips stored runs.
Target: not worse than the peer on any task. With several seeds, this is judged by the difference of the two means on
the same rows, with a bootstrap interval over rows (a row is resampled with its answers of all seeds, and together with
rows of the same text or passage; for tags, a row is a sentence with its entities); with one seed, by the interval of
the peer. The interval covers the choice of rows, not of seeds: the spread over seeds is shown next to each mean. Both
sides keep the best epoch on dev. CLEARHEAD_DATA is the folder of datasets.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from finetune_peers import predict_peer
from finetune_table import METRICS, as_numbers, compute_scores, make_table
from finetune_tasks import (
    SETTINGS,
    SIDES,
    TASKS,
    Record,
    Task,
    TaskRows,
    data_folder,
    groups_of,
    label_names,
    labels_of,
    load_rows,
    run_path,
)

from clearhead.metrics import bootstrap, paired_test

OUT = Path(__file__).resolve().parent / "out" / "finetune"
FEATURE_ROWS = 2000


def predict_clearhead(task: Task, rows: TaskRows, seed: int, method: str = "finetune") -> list[Any]:
    """Train with clearhead, and predict the measured rows."""
    import clearhead

    verbs: Any = clearhead
    settings = task.settings if method == "finetune" else {"model": SETTINGS["model"]}
    if task.options:
        settings["options"] = ",".join(task.options)
    if method == "finetune" and task.kind in ("classify", "pair", "regress"):
        settings["head_pooling"] = "first"  # as the peer; benchmarks/heads.py compares heads
    with tempfile.TemporaryDirectory() as folder:
        run = verbs.train(
            rows.train,
            dev=rows.choose,
            task=task.kind,
            text=task.text,
            text_b=task.text_b,
            label=task.label,
            output=Path(folder) / "model",
            method=method,
            metric=task.metrics[0],  # the peer chooses its epoch by the same metric
            seed=seed,
            **settings,
        )
        unlabeled = [{key: value for key, value in row.items() if key != task.label} for row in rows.measure]
        return [to_metric_answer(task, prediction) for prediction in verbs.predict(run.folder, unlabeled)]


def to_metric_answer(task: Task, prediction: Any) -> Any:
    """Convert a prediction to the input of the metrics."""
    if task.kind == "tag":
        return list(prediction.tags)
    if task.kind == "span":
        return prediction.answer
    return float(prediction.value) if task.kind == "regress" else prediction.label


def is_finished(task: Task, path: Path, rows: TaskRows) -> bool:
    """Whether a run of these rows and settings is stored; a run of others is reported and repeated."""
    if not path.is_file():
        return False
    record = json.loads(path.read_text())
    if record["rows"] == rows.digest() and record["settings"] == task.settings:
        return True
    print(f"{path.name}: stored for other rows or settings; running again", flush=True)
    return False


def run_and_store(
    task: Task, side: str, seed: int, rows: TaskRows, path: Path, predict: Callable[[], list[Any]]
) -> None:
    """Run once, and store the record atomically."""
    print(f"{path.stem} ...", flush=True)
    wall, cpu = time.perf_counter(), time.process_time()
    predictions = predict()
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    truth, labels = labels_of(task, rows.measure), label_names(task, rows)
    record: Record = {
        "task": task.name,
        "side": side,
        "seed": seed,
        "settings": task.settings,
        "rows": rows.digest(),
        "versions": {name: version(name) for name in ("torch", "transformers", "clearhead")},
        "scores": compute_scores(task, truth, predictions, labels),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "threads": int(os.environ["OMP_NUM_THREADS"]),
        "labels": labels,
        "truth": truth,
        "groups": groups_of(task, rows.measure),
        "predictions": predictions,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial_path = path.with_suffix(".tmp")
    partial_path.write_text(json.dumps(record))
    partial_path.replace(path)
    score_texts = ", ".join(f"{name} {value:.4f}" for name, value in record["scores"].items())
    print(f"{path.stem}: {score_texts}; {seconds:.0f} s, {cpu_seconds:.0f} s of CPU", flush=True)


def compare_features(out: Path) -> None:
    """Compare logistic regression on frozen features with TF-IDF on 2,000 sst2 sentences."""
    task = TASKS["sst2"]
    all_rows = load_rows(task, data_folder())
    sampled = random.Random(0).sample(all_rows.train, FEATURE_ROWS + 500)
    # the measured rows are not used to choose anything
    rows = TaskRows(train=sampled[:FEATURE_ROWS], choose=sampled[FEATURE_ROWS:], measure=all_rows.measure)
    method_answers = []
    for method in ("features", "tfidf"):
        path = run_path(out, f"sst2_{FEATURE_ROWS}", method, 0)
        if not is_finished(task, path, rows):
            run_and_store(task, method, 0, rows, path, partial(predict_clearhead, task, rows, 0, method=method))
        record = json.loads(path.read_text())
        truth, answers = (as_numbers(record[key], record["labels"]) for key in ("truth", "predictions"))
        method_answers.append(answers)
        seconds = record["cpu_seconds"]
        print(f"{method:<10}accuracy {bootstrap(METRICS['accuracy'], truth, answers)}   {seconds:.0f} s of CPU")
    paired = paired_test(METRICS["accuracy"], truth, *method_answers)
    print(f"features - tfidf: {paired.difference:+.3f} ({paired.low:+.3f} to {paired.high:+.3f}), p {paired.p:.4f}")


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(TASKS), help=f"comma-separated: {', '.join(TASKS)}")
    parser.add_argument("--sides", default=",".join(SIDES), help="peer, clearhead or both")
    parser.add_argument("--seeds", type=int, default=3, help="runs per side; sst2 has one")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the stored runs")
    parser.add_argument("--rows", type=int, help="limit the rows of each part, for a trial")
    parser.add_argument("--table", action="store_true", help="only print the table of stored runs")
    parser.add_argument(
        "--features", action="store_true", help="only compare frozen features and TF-IDF on 2,000 sentences"
    )
    arguments = parser.parse_args()
    for kind, names, options in (("task", arguments.tasks, TASKS), ("side", arguments.sides, SIDES)):
        for name in names.split(","):
            if name not in options:
                parser.error(f"unknown {kind} {name!r}; available: {', '.join(options)}")
    tasks = [TASKS[name] for name in arguments.tasks.split(",")]
    if arguments.features or not arguments.table:
        os.environ |= {"OMP_NUM_THREADS": str(arguments.threads), "HF_HUB_OFFLINE": "1"}
        import torch
        import transformers  # here, so that the import is not timed

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        torch.set_num_threads(arguments.threads)
    if arguments.features:
        compare_features(arguments.out)
        return
    for seed in range(arguments.seeds) if not arguments.table else []:  # every task with one seed before the next seed
        for task in (task for task in tasks if seed < (task.seeds or arguments.seeds)):
            rows = load_rows(task, data_folder(), arguments.rows)
            for side in arguments.sides.split(","):
                path = run_path(arguments.out, task.name, side, seed, arguments.rows)
                if not is_finished(task, path, rows):
                    predict = {"peer": predict_peer, "clearhead": predict_clearhead}[side]
                    run_and_store(task, side, seed, rows, path, partial(predict, task, rows, seed))
    print(make_table(tasks, arguments.out, arguments.seeds, arguments.rows))


if __name__ == "__main__":
    main()
