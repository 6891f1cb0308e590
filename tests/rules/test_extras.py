"""Hints at what to install name extras that there are."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

REPO = Path(__file__).parents[2]
EXTRAS = set(tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["optional-dependencies"])
NAMED = re.compile(r"clearhead\[([a-z,]+)\]")


def test_every_extra_in_an_error_exists() -> None:
    named = set()
    for path in (REPO / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "MissingExtraError":
                extra = node.args[1]
                assert isinstance(extra, ast.Constant), path
                named.add(extra.value)
    assert named
    assert named <= EXTRAS


def test_every_extra_in_a_text_exists() -> None:
    texts = [*(REPO / "src").rglob("*.py"), *(REPO / "docs").rglob("*.md"), *REPO.glob("*.md")]
    named = {extra for path in texts for found in NAMED.findall(path.read_text()) for extra in found.split(",")}
    assert named
    assert named <= EXTRAS
