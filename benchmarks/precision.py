"""Training in bfloat16 compared with float32: paired quality over seeds, and CPU time per token.

    python benchmarks/precision.py [--datasets sst2,mlm] [--seeds 3] [--rows 160] [--threads 1] [--out FOLDER]
    python benchmarks/precision.py --table                    # Markdown table of the stored results

Both precisions train with the same seed, rows and settings: MiniLM on sst2, conll2003 and stsb, a tiny 2017 Transformer
on Multi30k (German to English), a tiny BERT on wikitext2. The order of the two alternates between seeds. Every run adds
a line to FOLDER/precision.jsonl (default: benchmarks/out), and a stored run is not repeated. The difference is bf16
minus float on the same seed, with the 95 % interval of Student's t over the seeds. Time is CPU seconds per token of the
training steps. It is meaningful only on CPUs that compute in bf16 (avx512_bf16 or AMX): other CPUs emulate it, as the
first line of the output reports. CLEARHEAD_DATA is the folder of datasets.
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
T95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}  # by number of seeds
TEST_ROWS = 150  # the same for all runs; no epoch is chosen
RESULTS_FILE = "precision.jsonl"


class PrecisionCase:
    """Files, settings, metric and number of rows or steps of a training run."""

    def __init__(self, metric: str, train: str, held: str | None, rows: int, **settings: Any) -> None:
        self.metric, self.train, self.held_out, self.rows, self.settings = metric, train, held, rows, settings


NETWORK_SETTINGS: dict[str, Any] = {"epochs": 3, "batch_size": 8, "learning_rate": 1e-4}
CASES = {
    "sst2": PrecisionCase(
        "accuracy",
        "sst2/train.tsv",
        "sst2/dev.tsv",
        160,
        task="classify",
        text="sentence",
        label="label",
        **NETWORK_SETTINGS,
    ),
    "conll2003": PrecisionCase(
        "f1",
        "conll2003/train.conll.gz",
        "conll2003/valid.conll",
        120,
        task="tag",
        **NETWORK_SETTINGS | {"learning_rate": 3e-4},
    ),
    "stsb": PrecisionCase(
        "pearson",
        "stsb/train.tsv",
        "stsb/dev.tsv",
        160,
        task="regress",
        text="sentence1",
        text_b="sentence2",
        label="score",
        **NETWORK_SETTINGS,
    ),
    "multi30k": PrecisionCase(
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
    "mlm": PrecisionCase(
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


def data_folder() -> Path:
    """Return the folder of datasets."""
    folder = Path(os.environ.get("CLEARHEAD_DATA") or HERE.parents[1] / "shared" / "data")
    if not (folder / "sst2").is_dir():
        raise SystemExit(f"{folder} contains no sst2; set CLEARHEAD_DATA to the folder that contains it.")
    return folder


def sample_file(name: str, path: Path, out: Path) -> Path:
    """Write a sample of the rows or sentences of a file, the same in every run."""
    sample_path = out / "data" / f"{name}-{path.name}"
    if not sample_path.exists():
        text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
        separator = "\n\n" if ".conll" in path.name else "\n"
        header, *rows = text.strip().split(separator)
        if separator == "\n\n":  # CoNLL files have no header
            header, rows = "", [header, *rows]
        sample = random.Random(0).sample(rows, min(TEST_ROWS, len(rows)))
        sample_path.parent.mkdir(parents=True, exist_ok=True)
        sample_path.write_text(separator.join([header, *sample] if header else sample) + "\n", encoding="utf-8")
    return sample_path


def run_case(name: str, precision: str, seed: int, rows: int | None, threads: int, out: Path) -> dict[str, Any]:
    """Train and evaluate once; the run folder is removed."""
    import clearhead
    from clearhead.jobs.events import RunEvents

    case, folder = CASES[name], out / "precision-run"
    shutil.rmtree(folder, ignore_errors=True)
    cpu_seconds, tokens, previous_time = 0.0, 0, math.nan

    def step(training_step: Any) -> None:
        nonlocal cpu_seconds, tokens, previous_time
        now = time.process_time()
        if training_step.score is None and not math.isnan(previous_time):  # without the evaluation after an epoch
            cpu_seconds, tokens = cpu_seconds + now - previous_time, tokens + training_step.tokens
        previous_time = now

    train, run_settings = str(data_folder() / case.train), {"precision": precision, "seed": seed, "threads": threads}
    settings: dict[str, Any] = {
        **case.settings,
        **run_settings,
        "output": folder,
        "report": False,
        "events": RunEvents(training_step=step),
    }
    row_count = rows or case.rows
    if case.held_out is None:
        result = clearhead.pretrain([train], max_steps=row_count, **settings)
        assert result.held_out is not None
        quality = result.held_out.loss
    else:
        test_file = sample_file(name, data_folder() / case.held_out, out)
        evaluation = clearhead.train(train, test=str(test_file), dev_share=0.0, rows=row_count, **settings).evaluations[
            "test"
        ]
        quality = evaluation.metrics[case.metric].value
    shutil.rmtree(folder, ignore_errors=True)
    return {
        "dataset": name,
        "precision": precision,
        "seed": seed,
        "rows": row_count,
        "threads": threads,
        "quality": quality,
        "metric": case.metric,
        "microseconds_per_token": 1e6 * cpu_seconds / max(tokens, 1),
        "emulated": not has_bf16(),
    }


def has_bf16() -> bool:
    """Whether the CPU computes in bfloat16, so that times are comparable."""
    from clearhead.training.precision import has_fast_bf16

    return has_fast_bf16("cpu")


def read_records(out: Path) -> list[dict[str, Any]]:
    """Read the stored results."""
    path = out / RESULTS_FILE
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def make_table(results: list[dict[str, Any]]) -> str:
    """Format quality and time of both precisions, paired by seed."""
    lines = [
        "| dataset | rows | metric | seeds | float | bf16 | difference | 95 % interval | float's spread | time |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    keys = dict.fromkeys((record["dataset"], record["rows"], record["metric"]) for record in results)
    for key in keys:
        selected = [record for record in results if (record["dataset"], record["rows"], record["metric"]) == key]
        by_precision = {
            precision: {record["seed"]: record for record in selected if record["precision"] == precision}
            for precision in PRECISIONS
        }
        seeds = sorted(by_precision["float"].keys() & by_precision["bf16"].keys())
        if not seeds:
            continue
        float_quality, bf16_quality = (
            [by_precision[record][seed]["quality"] for seed in seeds] for record in PRECISIONS
        )
        differences = [b - a for a, b in zip(float_quality, bf16_quality, strict=True)]
        half_width = T95[len(seeds)] * stdev(differences) / len(seeds) ** 0.5 if len(seeds) in T95 else math.nan
        spread = stdev(float_quality) if len(seeds) > 1 else math.nan
        time_key = "microseconds_per_token"
        ratio = median(by_precision["bf16"][seed][time_key] / by_precision["float"][seed][time_key] for seed in seeds)
        lines.append(
            f"| {key[0]} | {key[1]:,} | {key[2]} | {len(seeds)} | {mean(float_quality):.4f} | {mean(bf16_quality):.4f} "
            f"| {mean(differences):+.4f} | {mean(differences) - half_width:+.4f} to "
            f"{mean(differences) + half_width:+.4f} | {spread:.4f} | {ratio:.2f} x |"
        )
    return "\n".join(lines)


def main() -> None:
    """Train what is missing, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--datasets", default=",".join(CASES), help="comma-separated datasets")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="training rows, or steps of mlm; default: the size of each dataset")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    parser.add_argument("--table", action="store_true", help="only print the table of stored results")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = arguments.datasets.split(",")
    unknown = set(names) - CASES.keys()
    if unknown:
        raise SystemExit(f"Unknown dataset {', '.join(sorted(unknown))}; available: {', '.join(CASES)}.")
    for seed in [] if arguments.table else range(arguments.seeds):
        for name in names:
            for precision in PRECISIONS if seed % 2 == 0 else PRECISIONS[::-1]:
                key = (name, precision, seed, arguments.rows or CASES[name].rows, arguments.threads)
                fields = ("dataset", "precision", "seed", "rows", "threads")
                if key in {tuple(record[field] for field in fields) for record in read_records(arguments.out)}:
                    continue
                start = time.perf_counter()
                record = run_case(name, precision, seed, arguments.rows, arguments.threads, arguments.out)
                with (arguments.out / RESULTS_FILE).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                seconds = time.perf_counter() - start
                print(f"{name}, {precision}, seed {seed}: {record['quality']:.4f} in {seconds:.0f} s", flush=True)
    note = "This CPU emulates bf16: its times do not apply to CPUs that compute in bf16."
    print("This CPU computes in bf16." if has_bf16() else note)
    print(make_table([record for record in read_records(arguments.out) if record["dataset"] in names]), flush=True)


if __name__ == "__main__":
    main()
