"""The CPU time of an import and of --help, compared with installed peers.

    python benchmarks/import_time.py [--repeat 7]

Target: `import clearhead` under 150 ms and `clearhead --help` under 300 ms of CPU time, interpreter included.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

CASES = {
    "python": ["-c", "pass"],
    "import clearhead": ["-c", "import clearhead"],
    "clearhead --help": ["-m", "clearhead", "--help"],
    "import torch": ["-c", "import torch"],
    "import transformers": ["-c", "import transformers; transformers.AutoModel"],
    "import sentence_transformers": ["-c", "import sentence_transformers"],
}
TARGETS = {"import clearhead": 150, "clearhead --help": 300}


def measure_cpu_ms(arguments: list[str]) -> float | None:
    """Measure user and system time of a process in milliseconds; None if it fails."""
    before = os.times()
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    process = subprocess.run([sys.executable, *arguments], capture_output=True, check=False, env=environment)
    after = os.times()
    seconds = (after.children_user - before.children_user) + (after.children_system - before.children_system)
    return seconds * 1000 if process.returncode == 0 else None


def main() -> None:
    """Print the medians of interleaved runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=7)
    repeat = max(parser.parse_args().repeat, 5)
    times: dict[str, list[float]] = {name: [] for name in CASES if measure_cpu_ms(CASES[name]) is not None}
    for _ in range(repeat):
        for name, results in times.items():
            milliseconds = measure_cpu_ms(CASES[name])
            if milliseconds is not None:
                results.append(milliseconds)
    for name in CASES:
        if name not in times:
            print(f"{name:<30}not installed")
            continue
        promise = f"   promised under {TARGETS[name]} ms" if name in TARGETS else ""
        print(f"{name:<30}{statistics.median(times[name]):>8.0f} ms of CPU{promise}")


if __name__ == "__main__":
    main()
