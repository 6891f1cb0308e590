"""What an import and a --help cost, in CPU time, beside peers that are installed.

    python benchmarks/import_time.py [--repeat 7]

The promise: `import clearhead` under 150 ms and `clearhead --help` under 300 ms of CPU, the interpreter included.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

CASES = {
    "python alone": ["-c", "pass"],
    "import clearhead": ["-c", "import clearhead"],
    "clearhead --help": ["-m", "clearhead", "--help"],
    "import torch": ["-c", "import torch"],
    "import transformers": ["-c", "import transformers; transformers.AutoModel"],
    "import sentence_transformers": ["-c", "import sentence_transformers"],
}
PROMISES = {"import clearhead": 150, "clearhead --help": 300}


def cpu(arguments: list[str]) -> float | None:
    """User and system time of one process in milliseconds; None when it fails."""
    before = os.times()
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, check=False, env=environment)
    after = os.times()
    spent = (after.children_user - before.children_user) + (after.children_system - before.children_system)
    return spent * 1000 if done.returncode == 0 else None


def main() -> None:
    """Print a table, interleaved runs, medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=7)
    repeat = max(parser.parse_args().repeat, 5)
    times: dict[str, list[float]] = {name: [] for name in CASES if cpu(CASES[name]) is not None}
    for _ in range(repeat):
        for name, results in times.items():
            spent = cpu(CASES[name])
            if spent is not None:
                results.append(spent)
    for name in CASES:
        if name not in times:
            print(f"{name:<30}not installed")
            continue
        promise = f"   promised under {PROMISES[name]} ms" if name in PROMISES else ""
        print(f"{name:<30}{statistics.median(times[name]):>8.0f} ms of CPU{promise}")


if __name__ == "__main__":
    main()
