"""The memory of training as predicted by `clearhead inspect`, compared with the peak of a real run in its own process.

    python benchmarks/memory.py [--tokens 20 64 256] [--model default]

Rows have the given number of tokens, with 32 rows per step; the run trains two epochs, evaluates, saves and reports.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

WORDS = ("time", "day", "night", "work", "home", "water", "music", "film", "street", "garden", "river", "summer")
ROWS = 400


def write_rows(path: Path, tokens: int) -> None:
    """Write rows of one-token words; the two special tokens are added by the tokenizer."""
    rng = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        for number in range(ROWS):
            writer.writerow((" ".join(rng.choices(WORDS, k=tokens - 2)), f"label {number % 4}"))


def predict_mb(path: Path, model: str) -> float:
    """Return the estimate of `clearhead inspect`."""
    command = [sys.executable, "-m", "clearhead", "inspect", str(path), "--model", model, "--json"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(process.stdout)["estimate"]["memory_mb"])


def measure_mb(path: Path, model: str, folder: Path) -> float:
    """Measure the peak memory of a training run."""
    command = [sys.executable, "-m", "clearhead", "train", str(path), "--model", model, "--epochs", "2", "-o"]
    process = subprocess.Popen([*command, str(folder), "--quiet"])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the run in {folder} failed")
    return usage.ru_maxrss * 1024 / 1e6  # kilobytes on Linux


def main() -> None:
    """Print a line per length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, nargs="+", default=[20, 64, 256])
    parser.add_argument("--model", default="default")
    arguments = parser.parse_args()
    print("tokens  predicted  measured  ratio")
    with tempfile.TemporaryDirectory(prefix="clearhead-memory-") as folder:
        for tokens in arguments.tokens:
            path = Path(folder) / f"rows-{tokens}.csv"
            write_rows(path, tokens)
            predicted = predict_mb(path, arguments.model)
            measured = measure_mb(path, arguments.model, Path(folder) / f"run-{tokens}")
            print(f"{tokens:6}  {predicted:6,.0f} MB {measured:6,.0f} MB  {predicted / measured:5.2f}", flush=True)


if __name__ == "__main__":
    main()
