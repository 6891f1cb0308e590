"""Fine-tuning quality beside a plain `transformers` loop: same model, rows, epochs, rate and batch.

    python benchmarks/finetune.py [--tasks mrpc,squad] [--sides peer,clearhead] [--seeds 3] [--threads 2] [--out FOLDER]
    python benchmarks/finetune.py --table       # from the runs that are there, in Markdown, with the command of each
    python benchmarks/finetune.py --features    # frozen features and TF-IDF on 2,000 sst2 sentences

Every finished run (task, side, seed) is a JSON file with its predictions, kept at once; a rerun skips what is done.
The promise: on no task worse than the peer. With several seeds that is the difference of the two means on the same
rows, with a bootstrap interval over rows (a row is drawn with its answers of all seeds, rows of one text or passage
together; of tags a row is a sentence with its entities);
with one seed, not below the peer's own interval. The interval speaks of other rows, not of other seeds: the spread over
seeds stands beside each mean. The best epoch on dev is kept on both sides. CLEARHEAD_DATA is the folder of data sets.
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

from finetune_peers import peer
from finetune_table import METRICS, as_numbers, scores, table
from finetune_tasks import (
    SETTINGS,
    SIDES,
    TASKS,
    Record,
    Rows,
    Task,
    data_folder,
    groups_of,
    label_names,
    load,
    stored,
    truth_of,
)

from clearhead.metrics import bootstrap, paired_test

OUT = Path(__file__).resolve().parent / "out" / "finetune"
FEATURE_ROWS = 2000


def ours(task: Task, rows: Rows, seed: int, method: str = "finetune") -> list[Any]:
    """The answers for the measured rows of clearhead."""
    import clearhead

    verbs: Any = clearhead
    settings = task.settings if method == "finetune" else {"model": SETTINGS["model"]}
    if task.options:
        settings["options"] = ",".join(task.options)
    if method == "finetune" and task.kind in ("classify", "pair", "regress"):
        settings["head_pooling"] = "first"  # as the peer's; benchmarks/heads.py compares heads
    with tempfile.TemporaryDirectory() as place:
        run = verbs.train(
            rows.train,
            dev=rows.choose,
            task=task.kind,
            text=task.text,
            text_b=task.text_b,
            label=task.label,
            output=Path(place) / "model",
            method=method,
            metric=task.metrics[0],  # the peer's epochs are compared by the same one
            seed=seed,
            **settings,
        )
        bare = [{key: value for key, value in row.items() if key != task.label} for row in rows.measure]
        return [answer_of(task, one) for one in verbs.predict(run.folder, bare)]


def answer_of(task: Task, said: Any) -> Any:
    """A prediction as the metrics take it."""
    if task.kind == "tag":
        return list(said.tags)
    if task.kind == "span":
        return said.answer
    return float(said.value) if task.kind == "regress" else said.label


def finished(task: Task, path: Path, rows: Rows) -> bool:
    """Whether a run of these rows and settings is stored; one of others is said and run again."""
    if not path.is_file():
        return False
    record = json.loads(path.read_text())
    if record["rows"] == rows.digest() and record["settings"] == task.settings:
        return True
    print(f"{path.name}: other rows or settings than now; run again", flush=True)
    return False


def run(task: Task, side: str, seed: int, rows: Rows, path: Path, answer: Callable[[], list[Any]]) -> None:
    """One run, stored whole or not at all."""
    print(f"{path.stem} ...", flush=True)
    wall, cpu = time.perf_counter(), time.process_time()
    said = answer()
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    truth, labels = truth_of(task, rows.measure), label_names(task, rows)
    record: Record = {
        "task": task.name,
        "side": side,
        "seed": seed,
        "settings": task.settings,
        "rows": rows.digest(),
        "versions": {name: version(name) for name in ("torch", "transformers", "clearhead")},
        "scores": scores(task, truth, said, labels),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "threads": int(os.environ["OMP_NUM_THREADS"]),
        "labels": labels,
        "truth": truth,
        "groups": groups_of(task, rows.measure),
        "predictions": said,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(record))
    fresh.replace(path)
    shown = ", ".join(f"{name} {value:.4f}" for name, value in record["scores"].items())
    print(f"{path.stem}: {shown}; {seconds:.0f} s, {cpu_seconds:.0f} s of CPU", flush=True)


def features(out: Path) -> None:
    """Frozen features with logistic regression beside TF-IDF, as the lecture does it: 2,000 sst2 sentences."""
    task = TASKS["sst2"]
    whole = load(task, data_folder())
    drawn = random.Random(0).sample(whole.train, FEATURE_ROWS + 500)
    # nothing is chosen on the rows that are measured
    rows = Rows(train=drawn[:FEATURE_ROWS], choose=drawn[FEATURE_ROWS:], measure=whole.measure)
    said = []
    for method in ("features", "tfidf"):
        path = stored(out, f"sst2_{FEATURE_ROWS}", method, 0)
        if not finished(task, path, rows):
            run(task, method, 0, rows, path, partial(ours, task, rows, 0, method=method))
        record = json.loads(path.read_text())
        truth, answers = (as_numbers(record[key], record["labels"]) for key in ("truth", "predictions"))
        said.append(answers)
        spent = record["cpu_seconds"]
        print(f"{method:<10}accuracy {bootstrap(METRICS['accuracy'], truth, answers)}   {spent:.0f} s of CPU")
    gap = paired_test(METRICS["accuracy"], truth, *said)
    print(f"features - tfidf: {gap.difference:+.3f} ({gap.low:+.3f} to {gap.high:+.3f}), p {gap.p:.4f}")


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(TASKS), help=f"of {', '.join(TASKS)}, commas between them")
    parser.add_argument("--sides", default=",".join(SIDES), help="peer, clearhead or both")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each side; sst2 has one")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the finished runs")
    parser.add_argument("--rows", type=int, help="only so many rows of each part, to try things out")
    parser.add_argument("--table", action="store_true", help="run nothing, only print the table")
    parser.add_argument("--features", action="store_true", help="only frozen features and TF-IDF on 2,000 sentences")
    given = parser.parse_args()
    for kind, asked, known in (("task", given.tasks, TASKS), ("side", given.sides, SIDES)):
        for name in asked.split(","):
            if name not in known:
                parser.error(f"{name!r} is no {kind}; there are {', '.join(known)}")
    tasks = [TASKS[name] for name in given.tasks.split(",")]
    if given.features or not given.table:
        os.environ |= {"OMP_NUM_THREADS": str(given.threads), "HF_HUB_OFFLINE": "1"}
        import torch
        import transformers  # here, so that no run is charged with the import

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        torch.set_num_threads(given.threads)
    if given.features:
        features(given.out)
        return
    for seed in range(given.seeds) if not given.table else []:  # one seed of every task before the next
        for task in (task for task in tasks if seed < (task.seeds or given.seeds)):
            rows = load(task, data_folder(), given.rows)
            for side in given.sides.split(","):
                path = stored(given.out, task.name, side, seed, given.rows)
                if not finished(task, path, rows):
                    answer = {"peer": peer, "clearhead": ours}[side]
                    run(task, side, seed, rows, path, partial(answer, task, rows, seed))
    print(table(tasks, given.out, given.seeds, given.rows))


if __name__ == "__main__":
    main()
