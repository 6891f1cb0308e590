"""Training in bfloat16 beside 32-bit numbers: quality over seeds, paired, and the CPU time of a step.

    python benchmarks/precision.py [--datasets sst2,mlm] [--seeds 3] [--rows 160] [--threads 1] [--out FOLDER]
    python benchmarks/precision.py --table                    # from the results that are there, in Markdown

Both precisions train with the same seed, rows and settings: MiniLM on sst2, conll2003 and stsb, a tiny 2017 Transformer
on Multi30k (German to English), a tiny BERT on wikitext2. The order of the two alternates between seeds. Every run adds
a line to FOLDER/precision.jsonl (without --out, benchmarks/out), and a run that has one is not repeated. The difference
is bf16 minus float on the same seed, with the 95 % interval of Student's t over the seeds. Time is CPU seconds per
token of the training steps. It says something about bf16 only where the CPU computes in it (avx512_bf16 or AMX): on
other CPUs it is emulated, and the first line of the output says so. CLEARHEAD_DATA is the folder of data sets.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import random
import shutil
import time
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

HERE = Path(__file__).resolve().parent
PRECISIONS = ("float", "bf16")
T95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}  # by the number of seeds
TEST_ROWS = 150  # that each run is measured on once, the same for all; no epoch is chosen
RESULTS = "precision.jsonl"


class Dataset:
    """A run to repeat: its files, its settings, how many rows or steps it has, and what it is measured by."""

    def __init__(self, metric: str, train: str, held: str | None, rows: int, **settings: Any) -> None:
        self.metric, self.train, self.held, self.rows, self.settings = metric, train, held, rows, settings


NETWORK: dict[str, Any] = {"epochs": 3, "batch_size": 8, "learning_rate": 1e-4}
DATASETS = {
    "sst2": Dataset(
        "accuracy", "sst2/train.tsv", "sst2/dev.tsv", 160, task="classify", text="sentence", label="label", **NETWORK
    ),
    "conll2003": Dataset(
        "f1", "conll2003/train.conll.gz", "conll2003/valid.conll", 120, task="tag", **NETWORK | {"learning_rate": 3e-4}
    ),
    "stsb": Dataset(
        "pearson",
        "stsb/train.tsv",
        "stsb/dev.tsv",
        160,
        task="regress",
        text="sentence1",
        text_b="sentence2",
        label="score",
        **NETWORK,
    ),
    "multi30k": Dataset(
        "chrf",
        "multi30k/train.tsv.gz",
        "multi30k/val.tsv",
        600,
        task="translate",
        source="de",
        target="en",
        family="transformer",
        preset="tiny",
        vocab_size=2000,
        epochs=4,
        learning_rate=3e-3,
        num_beams=1,
        average_epochs=1,
        batch_tokens=512,
    ),
    "mlm": Dataset(
        "held-out loss",
        "wikitext2/valid.txt.gz",
        None,
        60,
        family="bert",
        objective="mlm",
        preset="tiny",
        vocab_size=4000,
        max_length=64,
        evaluations=1,
        batch_tokens=2048,
    ),
}


def data() -> Path:
    """The folder of data sets."""
    place = Path(os.environ.get("CLEARHEAD_DATA") or HERE.parents[1] / "shared" / "data")
    if not (place / "sst2").is_dir():
        raise SystemExit(f"{place} holds no sst2; set CLEARHEAD_DATA to the folder that holds it.")
    return place


def sampled(name: str, path: Path, out: Path) -> Path:
    """A file with some of the rows or sentences of another, the same ones in every run."""
    made = out / "data" / f"{name}-{path.name}"
    if not made.exists():
        text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
        between = "\n\n" if ".conll" in path.name else "\n"
        head, *rows = text.strip().split(between)
        if between == "\n\n":  # it has no header
            head, rows = "", [head, *rows]
        some = random.Random(0).sample(rows, min(TEST_ROWS, len(rows)))
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(between.join([head, *some] if head else some) + "\n", encoding="utf-8")
    return made


def run(name: str, precision: str, seed: int, rows: int | None, threads: int, out: Path) -> dict[str, Any]:
    """Train once and measure; the run folder is removed."""
    import clearhead
    from clearhead.jobs.events import RunEvents

    what, folder = DATASETS[name], out / "precision-run"
    shutil.rmtree(folder, ignore_errors=True)
    cpu, tokens, last = 0.0, 0, math.nan

    def step(one: Any) -> None:
        nonlocal cpu, tokens, last
        now = time.process_time()
        if one.score is None and not math.isnan(last):  # the evaluation after an epoch is no training
            cpu, tokens = cpu + now - last, tokens + one.tokens
        last = now

    train, common = str(data() / what.train), {"precision": precision, "seed": seed, "threads": threads}
    choices: dict[str, Any] = {
        **what.settings,
        **common,
        "output": folder,
        "report": False,
        "told": RunEvents(training_step=step),
    }
    count = rows or what.rows
    if what.held is None:
        made = clearhead.pretrain([train], max_steps=count, **choices)
        assert made.held_out is not None
        quality = made.held_out.loss
    else:
        held = sampled(name, data() / what.held, out)
        found = clearhead.train(train, test=str(held), dev_share=0.0, rows=count, **choices).evaluations["test"]
        quality = found.metrics[what.metric].value
    shutil.rmtree(folder, ignore_errors=True)
    return {
        "dataset": name,
        "precision": precision,
        "seed": seed,
        "rows": count,
        "threads": threads,
        "quality": quality,
        "metric": what.metric,
        "microseconds_per_token": 1e6 * cpu / max(tokens, 1),
        "emulated": not has_bf16(),
    }


def has_bf16() -> bool:
    """Whether the CPU computes in bfloat16, so that time can be compared."""
    from clearhead.training.precision import has_fast_bf16

    return has_fast_bf16("cpu")


def read(out: Path) -> list[dict[str, Any]]:
    """The results that are there."""
    path = out / RESULTS
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def table(results: list[dict[str, Any]]) -> str:
    """Quality and time of both, paired by seed."""
    lines = [
        "| dataset | rows | metric | seeds | float | bf16 | difference | 95 % interval | float's spread | time |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    keys = dict.fromkeys((one["dataset"], one["rows"], one["metric"]) for one in results)
    for key in keys:
        some = [one for one in results if (one["dataset"], one["rows"], one["metric"]) == key]
        by = {which: {one["seed"]: one for one in some if one["precision"] == which} for which in PRECISIONS}
        seeds = sorted(by["float"].keys() & by["bf16"].keys())
        if not seeds:
            continue
        plain, half = ([by[one][seed]["quality"] for seed in seeds] for one in PRECISIONS)
        change = [b - a for a, b in zip(plain, half, strict=True)]
        around = T95[len(seeds)] * stdev(change) / len(seeds) ** 0.5 if len(seeds) in T95 else math.nan
        spread = stdev(plain) if len(seeds) > 1 else math.nan
        time_of = "microseconds_per_token"
        ratio = median(by["bf16"][seed][time_of] / by["float"][seed][time_of] for seed in seeds)
        lines.append(
            f"| {key[0]} | {key[1]:,} | {key[2]} | {len(seeds)} | {mean(plain):.4f} | {mean(half):.4f} "
            f"| {mean(change):+.4f} | {mean(change) - around:+.4f} to {mean(change) + around:+.4f} "
            f"| {spread:.4f} | {ratio:.2f} x |"
        )
    return "\n".join(lines)


def main() -> None:
    """Train what is missing, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--datasets", default=",".join(DATASETS), help="some of them, commas between")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="training rows, or steps of mlm; without it, as each dataset has it")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    parser.add_argument("--table", action="store_true", help="print what is there, and train nothing")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    names = given.datasets.split(",")
    unknown = set(names) - DATASETS.keys()
    if unknown:
        raise SystemExit(f"There is no dataset {', '.join(sorted(unknown))}; there are {', '.join(DATASETS)}.")
    for seed in [] if given.table else range(given.seeds):
        for name in names:
            for precision in PRECISIONS if seed % 2 == 0 else PRECISIONS[::-1]:
                key = (name, precision, seed, given.rows or DATASETS[name].rows, given.threads)
                fields = ("dataset", "precision", "seed", "rows", "threads")
                if key in {tuple(one[field] for field in fields) for one in read(given.out)}:
                    continue
                begun = time.perf_counter()
                made = run(name, precision, seed, given.rows, given.threads, given.out)
                with (given.out / RESULTS).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(made) + "\n")
                spent = time.perf_counter() - begun
                print(f"{name}, {precision}, seed {seed}: {made['quality']:.4f} in {spent:.0f} s", flush=True)
    note = "bf16 is emulated on this CPU: its time says nothing of CPUs that compute in it."
    print("This CPU computes in bf16." if has_bf16() else note)
    print(table([one for one in read(given.out) if one["dataset"] in names]), flush=True)


if __name__ == "__main__":
    main()
