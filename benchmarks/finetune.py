"""Fine-tuning quality beside a plain `transformers` loop: same model, rows, epochs, rate and batch.

    python benchmarks/finetune.py [--tasks mrpc,rte] [--sides peer,clearhead] [--seeds 3] [--threads 2] [--out FOLDER]
    python benchmarks/finetune.py --table       # from the runs that are there
    python benchmarks/finetune.py --features    # frozen features and TF-IDF on 2,000 sst2 sentences

Every finished run (task, side, seed) is a JSON file with its predictions, kept at once; a rerun skips what is done.
The promise: on no task worse than the peer. With several seeds that is the difference of the two means on the same
rows, with a bootstrap interval over rows (a row is drawn with its answers of all seeds, rows of one text together);
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

from finetune_tasks import (
    METRICS,
    SIDES,
    TASKS,
    Record,
    Row,
    Rows,
    Task,
    as_numbers,
    data_folder,
    groups_of,
    label_names,
    load,
    scores,
    stored,
    table,
)

from clearhead.metrics import bootstrap, paired_test

SETTINGS: dict[str, Any] = {"epochs": 3, "rate": 5e-5, "batch_rows": 32, "model": "default"}
MOST_TOKENS = 256  # of the peer; clearhead reads longer texts in windows
OUT = Path(__file__).resolve().parent / "out" / "finetune"
FEATURE_ROWS = 2000


def peer(task: Task, rows: Rows, seed: int) -> list[Any]:
    """The answers for the measured rows of a plain transformers loop."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_linear_schedule_with_warmup

    from clearhead.checkpoint.hub import locate

    torch.manual_seed(seed)
    folder = locate(SETTINGS["model"]).folder
    names = label_names(task, rows)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    problem = {"problem_type": "regression"} if names is None else {}
    network = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=len(names or "1"), **problem)

    def encoded(some: list[Row]) -> list[dict[str, list[int]]]:
        texts = [[row[column] for row in some] for column in (task.text, task.text_b) if column]
        made = tokenizer(*texts, truncation=True, max_length=min(tokenizer.model_max_length, MOST_TOKENS))
        return [{key: made[key][place] for key in made} for place in range(len(some))]

    def padded(some: list[dict[str, list[int]]]) -> Any:
        return tokenizer.pad(some, return_tensors="pt")

    def answers(some: list[dict[str, list[int]]]) -> list[Any]:
        network.eval()
        with torch.inference_mode():
            parts = [network(**padded(some[at : at + 32])).logits for at in range(0, len(some), 32)]
        logits = torch.cat(parts)
        return logits[:, 0].tolist() if names is None else [names[place] for place in logits.argmax(1).tolist()]

    train, choose, measure = encoded(rows.train), encoded(rows.choose), encoded(rows.measure)
    kind = torch.float32 if names is None else torch.int64
    truth = torch.tensor(as_numbers([row[task.label] for row in rows.train], names), dtype=kind)
    size = SETTINGS["batch_rows"]
    steps = SETTINGS["epochs"] * -(-len(train) // size)
    plain = [weight for name, weight in network.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
    decayed = [weight for weight in network.parameters() if not any(weight is other for other in plain)]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=SETTINGS["rate"])
    schedule = get_linear_schedule_with_warmup(optimiser, steps // 10, steps)
    shuffle = torch.Generator().manual_seed(seed)
    best = 0.0
    kept: list[Any] = []
    for epoch in range(SETTINGS["epochs"]):
        network.train()
        for chosen in torch.split(torch.randperm(len(train), generator=shuffle), size):
            batch = padded([train[place] for place in chosen.tolist()])
            network(**batch, labels=truth[chosen]).loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
        said = answers(choose)
        score = scores(task, [row[task.label] for row in rows.choose], said, names)[task.metrics[0]]
        print(f"  epoch {epoch + 1}: {task.metrics[0]} {score:.4f}", flush=True)
        if not kept or score > best:
            best, kept = score, said if rows.choose == rows.measure else answers(measure)
    return kept


def ours(task: Task, rows: Rows, seed: int, method: str = "finetune") -> list[Any]:
    """The answers for the measured rows of clearhead."""
    import clearhead

    verbs: Any = clearhead
    settings = SETTINGS if method == "finetune" else {"model": SETTINGS["model"]}
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
        said = verbs.predict(run.folder, bare)
        return [float(one.value) if task.kind == "regress" else one.label for one in said]


def finished(path: Path, rows: Rows) -> bool:
    """Whether a run of these rows and settings is stored; one of others is said and run again."""
    if not path.is_file():
        return False
    record = json.loads(path.read_text())
    if record["rows"] == rows.digest() and record["settings"] == SETTINGS:
        return True
    print(f"{path.name}: other rows or settings than now; run again", flush=True)
    return False


def run(task: Task, side: str, seed: int, rows: Rows, path: Path, answer: Callable[[], list[Any]]) -> None:
    """One run, stored whole or not at all."""
    print(f"{path.stem} ...", flush=True)
    wall, cpu = time.perf_counter(), time.process_time()
    said = answer()
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    truth, labels = [row[task.label] for row in rows.measure], label_names(task, rows)
    record: Record = {
        "task": task.name,
        "side": side,
        "seed": seed,
        "settings": SETTINGS,
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
        if not finished(path, rows):
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
                if not finished(path, rows):
                    answer = {"peer": peer, "clearhead": ours}[side]
                    run(task, side, seed, rows, path, partial(answer, task, rows, seed))
    print(table(tasks, given.out, given.seeds, given.rows))


if __name__ == "__main__":
    main()
