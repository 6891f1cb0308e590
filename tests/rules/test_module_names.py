"""Modules and files named in strings, comments, docs and configuration exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import clearhead

REPO = Path(__file__).parents[2]
DOTTED = re.compile(r"(?<![\w/.@-])clearhead((?:\.[a-z][a-z0-9_]*)+)")
FILE = re.compile(r"(?<![\w/.-])((?:src/clearhead|tests|benchmarks|fuzz|examples|docs)/[\w/]+\.(?:py|md))\b")
NO_MODULES = {"clearhead.json", "clearhead.py", "clearhead.nonsense", "clearhead.one_per_byte"}  # files and ids
PACKAGE = REPO / "src/clearhead"
SKIPPED = ("CHANGELOG.md", "tests/rules/test_module_names.py", "tests/golden/")


def list_tracked_files() -> list[Path]:
    process = subprocess.run(["git", "ls-files"], cwd=REPO, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        pytest.skip("not a git checkout")
    names = [name for name in process.stdout.splitlines() if not name.startswith(SKIPPED)]
    suffixes = (".py", ".md", ".toml", ".yaml", "Makefile", "run")
    return [REPO / name for name in names if name.endswith(suffixes) and (REPO / name).is_file()]


def resolves(dotted: str) -> bool:
    """Whether a dotted name is a module, an attribute of one, or a public name of the package."""
    parts = dotted.strip(".").split(".")
    path = PACKAGE
    for part in parts:
        if (path / f"{part}.py").is_file():
            return True
        if not (path / part).is_dir():
            init_source = (path / "__init__.py").read_text()
            return part in clearhead.__all__ if path == PACKAGE else re.search(rf"\b{part}\b", init_source) is not None
        path = path / part
    return True


def find_stale_names(text: str) -> list[str]:
    """List the modules and files that a text names but that do not exist."""
    modules = [f"clearhead{name}" for name in DOTTED.findall(text) if not resolves(name)]
    modules = [name for name in modules if name not in NO_MODULES]
    return modules + [name for name in FILE.findall(text) if not (REPO / name).exists()]


@pytest.mark.parametrize("path", list_tracked_files(), ids=lambda path: str(path.relative_to(REPO)))
def test_named_modules_and_files_exist(path: Path) -> None:
    assert find_stale_names(path.read_text(errors="replace")) == []


def test_a_stale_name_is_detected() -> None:
    text = "see clearhead.runs.train and clearhead.model.nowhere, tests/runs/test_train.py, but clearhead.train.job"
    assert find_stale_names(text) == ["clearhead.runs.train", "clearhead.model.nowhere", "tests/runs/test_train.py"]
