"""Task-specific code lives in the package of the task: no other module imports, compares or lists tasks."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import clearhead
from clearhead.data.labels import Kind
from clearhead.data.row_codec import RowCodec
from clearhead.tasks import TASKS, Task
from clearhead.tasks.answer import Answer, AnswerCodec
from clearhead.tasks.task import Decoding, ErrorExamples, TaskHead, TaskMetrics

ROOT = Path(clearhead.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
TASK_PACKAGES = {path.parent.name for path in (ROOT / "tasks").glob("*/task.py")}
TASK_NAMES = set(TASKS)
OWN_KINDS = set(get_args(Kind)) - {"classes", "multilabel", "number", "texts"}  # labels that a single task has
REGISTRY = "tasks/registry.py"
BUILT_ON = {"pair": {"classify"}}  # a pair is a classification of two texts
# heads and pair encodings have the same names as tasks
HEADS = (
    "shape.py",
    "families/",
    "core/",
    "engine/",
    "checkpoint/",
    "model/",
    "text/",
    "pretraining/",
    "report/pretraining",
)
LOSSES = "training/objectives"  # losses have the same names as label kinds
# strings that equal the name of a task but mean something else
OTHER_MEANING = {
    "data/column_resolver.py": {"classify", "pair", "regress"},  # shorthands of a public function
    "data/names.py": {"tag"},  # a column
    "deploy/export.py": {"choice", "span"},  # heads
    "jobs/kinds.py": {"classify"},  # a head
    "jobs/plan.py": {"classify"},  # a head
    "metrics/measure.py": {"classify", "regress"},  # sets of metrics
    "train/gpt_inputs.py": {"classify", "choice"},  # heads
    "train/fitted_network.py": {"classify"},  # a head
}


def find_task_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the task packages that a module imports."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for package in {name.split(".")[2] for name in names if name.startswith("clearhead.tasks.")} & TASK_PACKAGES:
            yield getattr(node, "lineno", 0), package


def find_task_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings that are the name of a task."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in TASK_NAMES:
            yield node.lineno, str(node.value)


def find_label_kinds(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield comparisons with a label kind that belongs to a single task, and tables keyed by such kinds."""
    for node in ast.walk(tree):
        constants: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any("kind" in ast.unparse(side) for side in sides):
                constants = [part for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant)]
        elif isinstance(node, ast.Dict):
            constants = [key for key in node.keys if isinstance(key, ast.Constant)]
            constants = (
                constants
                if len({key.value for key in constants if isinstance(key, ast.Constant)} & OWN_KINDS) > 1
                else []
            )
        for part in constants:
            if isinstance(part, ast.Constant) and part.value in OWN_KINDS:
                yield part.lineno, str(part.value)


def find_violations(name: str, text: str) -> list[str]:
    """List what a file knows about single tasks."""
    tree = ast.parse(text)
    if name == REGISTRY:
        return []
    parts = name.split("/")
    own_task = parts[1] if parts[0] == "tasks" and parts[1] in TASK_PACKAGES else None
    allowed = {own_task, *BUILT_ON.get(own_task or "", ())}
    violations = [
        f"{name}:{line} imports {package}" for line, package in find_task_imports(tree) if package not in allowed
    ]
    if own_task is not None or name.startswith(HEADS):
        return violations
    exempt_names = OTHER_MEANING.get(name, set())
    violations += [
        f"{name}:{line} mentions {task!r}" for line, task in find_task_names(tree) if task not in exempt_names
    ]
    if name.startswith(LOSSES):
        return violations
    return violations + [f"{name}:{line} depends on labels of kind {kind!r}" for line, kind in find_label_kinds(tree)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_its_package_and_the_registry_know_a_task(path: Path) -> None:
    assert find_violations(path.relative_to(ROOT).as_posix(), path.read_text()) == []


def test_every_exception_is_needed() -> None:
    for name, words in OTHER_MEANING.items():
        assert {word for _, word in find_task_names(ast.parse((ROOT / name).read_text()))} == words, name


@pytest.mark.parametrize(
    "line",
    [
        "from clearhead.tasks.tag.rows import check",
        "from clearhead.tasks import span",
        "import clearhead.tasks.choice.task",
        'if plan.task == "pair": pass',
        'if task.name in ("tag", "span"): pass',
        'DOES = {"classify": "labels texts"}',
        'if predictor.space.kind == "tags": pass',
        'if kind in ("answers", "options"): pass',
        'MAKERS = {"tags": 1, "answers": 2}',
    ],
)
def test_a_mention_is_detected(line: str) -> None:
    assert find_violations("predict/wrong.py", line)


def test_task_packages_do_not_know_each_other() -> None:
    assert find_violations("tasks/choice/wrong.py", "from clearhead.tasks.span.rows import check")
    assert not find_violations("tasks/span/right.py", "from clearhead.tasks.span.rows import check")


def test_tasks_have_few_fields() -> None:
    limits = {Task: 10, RowCodec: 22, TaskHead: 6, Decoding: 4, AnswerCodec: 11, TaskMetrics: 10, ErrorExamples: 2}
    counts = {part: len(dataclasses.fields(part)) for part in limits}
    assert {part.__name__: (counts[part], limit) for part, limit in limits.items() if counts[part] > limit} == {}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_its_package_and_answer_types(name: str) -> None:
    task = TASKS[name]
    assert (ROOT / "tasks" / name / "task.py").is_file()
    for kind in task.answers.answer_types:
        assert issubclass(kind, Answer)
        assert kind is not Answer
        assert dataclasses.fields(kind)
        assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
