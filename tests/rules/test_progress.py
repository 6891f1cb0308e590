"""Progress is reported through one protocol: no file but progress.py defines a callback of its own for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules.test_imports import FILES, ROOT

HOME = "progress.py"
EVENTS = "jobs/events.py"  # the other callbacks of a run: messages, seeds, steps
PLAIN = {"str", "int", "int | None", "float", "Step"}
SHORTER = {"DoneCallback", "CountCallback", "KnownCountCallback"}  # documented callbacks of public functions
BOUNDARIES = ("api/", "cli/screen.py", "explain/complexity.py", "model/model.py")
OLD_NAMES = {"told", "tell"}  # the public functions of `api` keep the keyword


def text_of(node: ast.expr) -> str:
    """An annotation as it is written, without the quotes of a forward reference."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)


def is_report(arguments: list[str], returned: str) -> bool:
    """Whether a callback with these arguments reports how far something is; texts alone are messages."""
    return returned == "None" and set(arguments) <= PLAIN and bool(set(arguments) - {"str"})


def definitions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Callable types and protocols that are callbacks for progress."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id="Callable"), slice=ast.Tuple(elts=[ast.List(elts=taken), returned])):
                if is_report([text_of(one) for one in taken], ast.unparse(returned)):
                    yield node.lineno, ast.unparse(node)
            case ast.ClassDef(bases=bases) if any(ast.unparse(base).startswith("Protocol") for base in bases):
                for call in node.body:
                    if isinstance(call, ast.FunctionDef) and call.name == "__call__" and call.returns is not None:
                        hints = [one.annotation for one in (*call.args.posonlyargs, *call.args.args)]
                        if is_report([text_of(hint) for hint in hints if hint is not None], ast.unparse(call.returns)):
                            yield node.lineno, f"class {node.name}"


def parameters(tree: ast.AST) -> Iterator[ast.arg]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)


def violations(path: Path) -> list[str]:
    """Own callbacks for progress, old parameter names, and short callbacks below the public functions."""
    name = str(path.relative_to(ROOT))
    if name == HOME:
        return []
    tree = ast.parse(path.read_text())
    found = [] if name == EVENTS else list(definitions(tree))
    if not name.startswith("api/"):
        found += [(one.lineno, f"parameter {one.arg}") for one in parameters(tree) if one.arg in OLD_NAMES]
    if not name.startswith(BOUNDARIES):
        names = (node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.alias))
        used = ((node.lineno, node.id if isinstance(node, ast.Name) else node.name) for node in names)
        found += [(line, short) for line, short in used if short in SHORTER]
    return [f"{line}: {what}" for line, what in sorted(found)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_progress_has_one_protocol(path: Path) -> None:
    assert violations(path) == []


def test_own_callbacks_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "words").mkdir()
    wrong = tmp_path / "words" / "wrong.py"
    wrong.write_text(
        "Told = Callable[[str, int, int | None], None]\n"
        "def read(told: Callable[[int, int], None] | None = None, *, say: Callable[[str], None]) -> None: ...\n"
        "class Steps(Protocol):\n    def __call__(self, done: int, total: int | None, /) -> None: ...\n"
        'step: Callable[["Step"], None]\n'
        "from clearhead.progress import DoneCallback, Progress\n"
        "def write(progress: Progress, make: Callable[[int], int], done: Callable[[str, int], str]) -> None: ...\n"
    )
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert violations(wrong) == [
        "1: Callable[[str, int, int | None], None]",
        "2: Callable[[int, int], None]",
        "2: parameter told",
        "3: class Steps",
        "5: Callable[['Step'], None]",
        "6: DoneCallback",
    ]


def test_the_rule_sees_the_definitions_themselves() -> None:
    tree = ast.parse((ROOT / HOME).read_text())
    written = [written for _, written in definitions(tree)]
    assert "class Progress" in written
    assert len(written) == 1 + len(SHORTER)
