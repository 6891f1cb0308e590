"""What `clearhead inspect` predicts that training takes, beside the peak memory of a real run; each in its own process.

    python benchmarks/memory.py [--tokens 20 64 256] [--model default]

Rows have about so many tokens each, 32 of them a step; the run trains two epochs, measures, saves and reports.
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
    """Rows of one-token words; two more tokens begin and end a text."""
    draw = random.Random(0)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("text", "label"))
        for number in range(ROWS):
            rows.writerow((" ".join(draw.choices(WORDS, k=tokens - 2)), f"label {number % 4}"))


def predicted_mb(path: Path, model: str) -> float:
    """What inspect says."""
    command = [sys.executable, "-m", "clearhead", "inspect", str(path), "--model", model, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["estimate"]["memory_mb"])


def measured_mb(path: Path, model: str, folder: Path) -> float:
    """The peak of a run."""
    command = [sys.executable, "-m", "clearhead", "train", str(path), "--model", model, "--epochs", "2", "-o"]
    child = subprocess.Popen([*command, str(folder), "--quiet"])
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"the run in {folder} failed")
    return used.ru_maxrss * 1024 / 1e6  # kilobytes on Linux


def main() -> None:
    """Print a line for each length."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--tokens", type=int, nargs="+", default=[20, 64, 256])
    arguments.add_argument("--model", default="default")
    chosen = arguments.parse_args()
    print("tokens  predicted  measured  ratio")
    with tempfile.TemporaryDirectory(prefix="clearhead-memory-") as place:
        for tokens in chosen.tokens:
            path = Path(place) / f"rows-{tokens}.csv"
            write_rows(path, tokens)
            predicted = predicted_mb(path, chosen.model)
            measured = measured_mb(path, chosen.model, Path(place) / f"run-{tokens}")
            print(f"{tokens:6}  {predicted:6,.0f} MB {measured:6,.0f} MB  {predicted / measured:5.2f}", flush=True)


if __name__ == "__main__":
    main()
