"""The cost of each dependency: installed size, and CPU time of the import without that of the interpreter.

    python benchmarks/dependencies.py

The figures of docs/dependencies.md come from here.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PACKAGES = {
    "numpy": "numpy",
    "tokenizers": "tokenizers",
    "huggingface-hub": "huggingface_hub",
    "msgspec": "msgspec",
    "cyclopts": "cyclopts",
    "rich": "rich",
    "jinja2": "jinja2",
    "sacrebleu": "sacrebleu",
    "threadpoolctl": "threadpoolctl",
    "torch": "torch",
    "scikit-learn": "sklearn",
    "matplotlib": "matplotlib",
    "pyarrow": "pyarrow",
    # considered, but not imported by the package
    "safetensors": "safetensors",
    "sentencepiece": "sentencepiece",
    "regex": "regex",
    "resvg_py": "resvg_py",
}


def measure_megabytes(package: str) -> float:
    """Measure the files of a package."""
    files = distribution(package).files or []
    paths = [Path(str(file.locate())) for file in files]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def measure_import_ms(code: str, repeat: int = 5) -> float:
    """Measure the median CPU time of a fresh interpreter that runs a line of code."""
    times = []
    for _ in range(repeat):
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True)
        after = os.times()
        child_seconds = after.children_user + after.children_system - before.children_user - before.children_system
        times.append(child_seconds * 1000)
    return statistics.median(times)


def main() -> None:
    """Print a line per package."""
    interpreter_ms = measure_import_ms("pass")
    for package, module in PACKAGES.items():
        try:
            size = measure_megabytes(package)
        except PackageNotFoundError:
            print(f"{package:<18}not installed")
            continue
        print(f"{package:<18}{size:>8.1f} MB{measure_import_ms(f'import {module}') - interpreter_ms:>8.0f} ms")


if __name__ == "__main__":
    main()
