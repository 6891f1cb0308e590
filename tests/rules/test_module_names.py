"""Names of modules in strings, comments, docs and configuration lead somewhere: a move leaves none behind."""

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


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=REPO, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    names = [name for name in listed.stdout.splitlines() if not name.startswith(SKIPPED)]
    wanted = (".py", ".md", ".toml", ".yaml", "Makefile", "run")
    return [REPO / name for name in names if name.endswith(wanted) and (REPO / name).is_file()]


def is_name(dotted: str) -> bool:
    """Whether a dotted name leads to a module, perhaps to something in it, or to a public name of the package."""
    parts = dotted.strip(".").split(".")
    path = PACKAGE
    for part in parts:
        if (path / f"{part}.py").is_file():
            return True
        if not (path / part).is_dir():
            own = (path / "__init__.py").read_text()
            return part in clearhead.__all__ if path == PACKAGE else re.search(rf"\b{part}\b", own) is not None
        path = path / part
    return True


def stale_names(text: str) -> list[str]:
    """The modules and files that a text names and that are not there."""
    modules = [f"clearhead{name}" for name in DOTTED.findall(text) if not is_name(name)]
    modules = [name for name in modules if name not in NO_MODULES]
    return modules + [name for name in FILE.findall(text) if not (REPO / name).exists()]


@pytest.mark.parametrize("path", tracked(), ids=lambda path: str(path.relative_to(REPO)))
def test_named_modules_and_files_are_there(path: Path) -> None:
    assert stale_names(path.read_text(errors="replace")) == []


def test_a_stale_name_would_be_seen() -> None:
    text = "see clearhead.runs.train and clearhead.model.nowhere, tests/runs/test_train.py, but clearhead.train.job"
    assert stale_names(text) == ["clearhead.runs.train", "clearhead.model.nowhere", "tests/runs/test_train.py"]
