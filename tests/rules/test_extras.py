"""Extras named in installation hints exist."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

REPO = Path(__file__).parents[2]
EXTRAS = set(tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["optional-dependencies"])
EXTRA_NAME = re.compile(r"clearhead\[([a-z,]+)\]")


def test_every_extra_in_an_error_exists() -> None:
    extras = set()
    for path in (REPO / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "MissingExtraError":
                extra = node.args[1]
                assert isinstance(extra, ast.Constant), path
                extras.add(extra.value)
    assert extras
    assert extras <= EXTRAS


def test_every_extra_in_a_text_exists() -> None:
    texts = [*(REPO / "src").rglob("*.py"), *(REPO / "docs").rglob("*.md"), *REPO.glob("*.md")]
    extras = {
        extra
        for path in texts
        for extra_list in EXTRA_NAME.findall(path.read_text())
        for extra in extra_list.split(",")
    }
    assert extras
    assert extras <= EXTRAS
