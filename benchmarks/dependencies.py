"""What each dependency costs: installed size and the CPU time of its import, the interpreter's own taken off.

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
    # considered, and not imported by the package
    "safetensors": "safetensors",
    "sentencepiece": "sentencepiece",
    "regex": "regex",
    "resvg_py": "resvg_py",
}


def megabytes(package: str) -> float:
    """The size of a package's own files."""
    files = distribution(package).files or []
    places = [Path(str(file.locate())) for file in files]
    return sum(place.stat().st_size for place in places if place.is_file()) / 1e6


def milliseconds(code: str, repeat: int = 5) -> float:
    """The median CPU time of a fresh interpreter running a line."""
    spent = []
    for _ in range(repeat):
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True)
        after = os.times()
        children = after.children_user + after.children_system - before.children_user - before.children_system
        spent.append(children * 1000)
    return statistics.median(spent)


def main() -> None:
    """Print a line per package."""
    alone = milliseconds("pass")
    for package, module in PACKAGES.items():
        try:
            size = megabytes(package)
        except PackageNotFoundError:
            print(f"{package:<18}not installed")
            continue
        print(f"{package:<18}{size:>8.1f} MB{milliseconds(f'import {module}') - alone:>8.0f} ms")


if __name__ == "__main__":
    main()
