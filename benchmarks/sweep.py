"""Features of every layer and pooling in one pass, compared with a single layer: time and peak memory, interleaved.

    python benchmarks/sweep.py [--rounds 5] [--rows 600]

The data is sst2 (CLEARHEAD_DATA/sst2/train.tsv), with the default model on two threads. Both sides process the same
tokens in the same batches: a single layer is `compute_table_features` of the last layer with mean pooling, the sweep is
`compute_text_features` of all layer choices. Memory is the peak of a separate process above the peak of the features,
measured after one pass over a few rows. CPU seconds are the more reliable figure on a busy machine. Target: at most
1.3 times the time of a single layer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

DATA = Path(os.environ.get("CLEARHEAD_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
SIDES = ("a single layer", "the whole sweep")
MAX_RATIO = 1.3


def run_side(side: str, rows: int) -> None:
    """Compute features once per input line, and print seconds and peak memory."""
    import numpy as np
    import torch

    import clearhead
    from clearhead.data import encode_table, guess_columns, open_source
    from clearhead.features.layer_choices import compute_text_features, list_choices
    from clearhead.predict.frozen_features import compute_table_features
    from clearhead.tasks.packed import pack_table

    torch.set_num_threads(2)
    model = clearhead.load("default", device="cpu", head=None)
    source = open_source(DATA / "sst2" / "train.tsv")
    table = encode_table(source, guess_columns(source), model.tokenizer, max_length=model.max_length())
    data = pack_table(table, segments=model.shape.stack.segments > 1).select(np.arange(min(rows, len(table))))
    choices = list_choices(model)[0]

    def work(rows: Any) -> float:
        if side == SIDES[0]:
            return float(compute_table_features(model, rows, layer="last", pooling=("mean",)).nbytes / 1e6)
        return compute_text_features(model, rows, choices).megabytes

    work(data.select(np.arange(32)))
    memory_before = read_memory("VmRSS")
    for _ in sys.stdin:
        start, cpu_start = time.perf_counter(), time.process_time()
        feature_mb = work(data)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        record = {
            "seconds": seconds,
            "cpu": cpu_seconds,
            "kept": feature_mb,
            "peak": read_memory("VmHWM") - memory_before,
        }
        print(json.dumps(record | {"choices": len(choices)}), flush=True)


def read_memory(name: str) -> float:
    """Read the megabytes of this process, now (VmRSS) or at its peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if name in line).split()[1]) / 1000


def main() -> None:
    """Print a table of times, memory and their ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_side(arguments.child, arguments.rows)
        return
    if not (DATA / "sst2" / "train.tsv").is_file():
        raise SystemExit(f"{DATA / 'sst2' / 'train.tsv'} not found; set CLEARHEAD_DATA to the folder of datasets")
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "2"}
    sides = {
        side: subprocess.Popen(
            [sys.executable, __file__, "--child", side, "--rows", str(arguments.rows)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for side in SIDES
    }
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(max(arguments.rounds, 5)):
        for side, process in sides.items():
            assert process.stdin is not None
            assert process.stdout is not None
            print(file=process.stdin, flush=True)
            line = process.stdout.readline()
            if not line:
                raise SystemExit("a process of the comparison stopped; see its error above")
            runs[side].append(json.loads(line))
    header = f"{'seconds':>9}{'ratio':>8}{'lowest to highest':>19}{'CPU s':>8}{'ratio':>8}"
    print(f"{'':<18}{'choices':>8}{header}{'kept MB':>9}{'peak MB':>9}")
    for side, results in runs.items():
        pairs = list(zip(results, runs[SIDES[0]], strict=True))
        ratios, cpu_ratios = ([run[clock] / baseline[clock] for run, baseline in pairs] for clock in ("seconds", "cpu"))
        median_seconds, median_cpu = (statistics.median(run[clock] for run in results) for clock in ("seconds", "cpu"))
        choices = 1 if side == SIDES[0] else int(results[0]["choices"])
        print(
            f"{side:<18}{choices:>8}{median_seconds:>9.2f}{statistics.median(ratios):>7.2f}x"
            f"{f'{min(ratios):.2f} to {max(ratios):.2f}':>19}{median_cpu:>8.2f}{statistics.median(cpu_ratios):>7.2f}x"
            f"{results[-1]['kept']:>9.1f}{results[-1]['peak']:>9.0f}"
        )
    print(f"target: at most {MAX_RATIO} x the time of a single layer")


if __name__ == "__main__":
    main()
