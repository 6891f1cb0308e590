"""Run every test in which a model learns under other seeds, precisions and thread counts: `make margins`.

A learning test passes in `make test` under one seed, in float32, on one thread. This script shows that its margin is
real: it must pass under five seeds, in float32 and bfloat16, on one thread and two. Finished settings are kept in
`benchmarks/out/margins.jsonl`, so that an interrupted run continues where it stopped.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "out" / "margins.jsonl"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="ignore the results of earlier runs")
    parser.add_argument("tests", nargs="*", default=["tests"])
    options = parser.parse_args()
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    if options.again:
        RESULTS.unlink(missing_ok=True)
    records = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    failed = 0
    for seed, precision, threads in itertools.product(range(options.seeds), ("float", "bf16"), (1, 2)):
        setting = {"seed": seed, "precision": precision, "threads": threads, "tests": options.tests}
        earlier = next((record for record in records if setting.items() <= record.items()), None)
        result = earlier or {**setting, **run(seed, precision, threads, options.tests, options.jobs)}
        if earlier is None:
            with RESULTS.open("a") as file:
                file.write(json.dumps(result) + "\n")
        failed += len(result["failed"])
        print(f"seed {seed}  {precision:5}  threads {threads}: {result['summary']}", *result["failed"], sep="\n  ")  # noqa: T201
    print(f"{failed} failed")  # noqa: T201
    return int(failed > 0)


def run(seed: int, precision: str, threads: int, tests: list[str], jobs: int) -> dict[str, object]:
    """Run the learning tests once; return the failures and a summary."""
    variation = {
        "CLEARHEAD_TEST_SEED": str(seed),
        "CLEARHEAD_TEST_PRECISION": precision,
        "CLEARHEAD_TEST_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
    }
    started = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-n", str(jobs), "-m", "learns", "--tb=line", *tests]
    completed = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variation}, capture_output=True, text=True, check=False
    )
    lines = completed.stdout.splitlines()
    failures = sorted({line.split()[1] for line in lines if line.startswith(("FAILED ", "ERROR "))})
    if completed.returncode and not failures:
        failures = [f"pytest ended with {completed.returncode}: {(lines or [''])[-1]}"]
    match = re.search(r"(\d+) passed", (lines or [""])[-1])
    passed = int(match[1]) if match else 0
    if not passed and not failures:
        failures = ["no test ran"]
    summary = f"{passed} passed, {len(failures)} failed in {time.perf_counter() - started:.0f} s"
    return {"failed": failures, "summary": summary}


if __name__ == "__main__":
    sys.exit(main())
