"""Progress is reported through one protocol: only progress.py defines callbacks for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules.test_imports import FILES, ROOT

PROGRESS_FILE = "progress.py"
EVENTS_FILE = "jobs/events.py"  # the other callbacks of a run: messages, seeds, steps
PLAIN_TYPES = {"str", "int", "int | None", "float", "Step"}
SHORT_CALLBACKS = {"DoneCallback", "CountCallback", "KnownCountCallback"}  # documented callbacks of public functions
BOUNDARIES = ("api/", "cli/screen.py", "explain/complexity.py", "model/model.py")
OLD_NAMES = {"told", "tell"}  # the public functions of `api` keep the keyword


def annotation_text(node: ast.expr) -> str:
    """Return the source of an annotation without the quotes of a forward reference."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)


def is_report(arguments: list[str], returned: str) -> bool:
    """Whether a callback with these arguments reports progress; if all of them are strings, it passes messages."""
    return returned == "None" and set(arguments) <= PLAIN_TYPES and bool(set(arguments) - {"str"})


def find_callbacks(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield callable types and protocols that are progress callbacks."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(
                value=ast.Name(id="Callable"), slice=ast.Tuple(elts=[ast.List(elts=argument_types), returned])
            ):
                if is_report([annotation_text(argument) for argument in argument_types], ast.unparse(returned)):
                    yield node.lineno, ast.unparse(node)
            case ast.ClassDef(bases=bases) if any(ast.unparse(base).startswith("Protocol") for base in bases):
                for call in node.body:
                    if isinstance(call, ast.FunctionDef) and call.name == "__call__" and call.returns is not None:
                        annotations = [argument.annotation for argument in (*call.args.posonlyargs, *call.args.args)]
                        if is_report(
                            [annotation_text(hint) for hint in annotations if hint is not None],
                            ast.unparse(call.returns),
                        ):
                            yield node.lineno, f"class {node.name}"


def iter_parameters(tree: ast.AST) -> Iterator[ast.arg]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)


def find_violations(path: Path) -> list[str]:
    """List callback types of its own, old parameter names, and short callbacks below the public functions."""
    name = str(path.relative_to(ROOT))
    if name == PROGRESS_FILE:
        return []
    tree = ast.parse(path.read_text())
    violations_by_line = [] if name == EVENTS_FILE else list(find_callbacks(tree))
    if not name.startswith("api/"):
        violations_by_line += [
            (parameter.lineno, f"parameter {parameter.arg}")
            for parameter in iter_parameters(tree)
            if parameter.arg in OLD_NAMES
        ]
    if not name.startswith(BOUNDARIES):
        names = (node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.alias))
        used = ((node.lineno, node.id if isinstance(node, ast.Name) else node.name) for node in names)
        violations_by_line += [
            (line, callback_name) for line, callback_name in used if callback_name in SHORT_CALLBACKS
        ]
    return [f"{line}: {definition}" for line, definition in sorted(violations_by_line)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_progress_has_one_protocol(path: Path) -> None:
    assert find_violations(path) == []


def test_other_callbacks_are_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "words").mkdir()
    module_path = tmp_path / "words" / "wrong.py"
    module_path.write_text(
        "Told = Callable[[str, int, int | None], None]\n"
        "def read(told: Callable[[int, int], None] | None = None, *, say: Callable[[str], None]) -> None: ...\n"
        "class Steps(Protocol):\n    def __call__(self, done: int, total: int | None, /) -> None: ...\n"
        'step: Callable[["Step"], None]\n'
        "from clearhead.progress import DoneCallback, Progress\n"
        "def write(progress: Progress, make: Callable[[int], int], done: Callable[[str, int], str]) -> None: ...\n"
    )
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert find_violations(module_path) == [
        "1: Callable[[str, int, int | None], None]",
        "2: Callable[[int, int], None]",
        "2: parameter told",
        "3: class Steps",
        "5: Callable[['Step'], None]",
        "6: DoneCallback",
    ]


def test_the_rule_detects_the_protocol_itself() -> None:
    tree = ast.parse((ROOT / PROGRESS_FILE).read_text())
    callbacks = [callback for _, callback in find_callbacks(tree)]
    assert "class Progress" in callbacks
    assert len(callbacks) == 1 + len(SHORT_CALLBACKS)
