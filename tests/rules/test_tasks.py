"""What depends on a task stands in the package of the task: elsewhere no module imports, compares or lists tasks."""

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
PACKAGES = {path.parent.name for path in (ROOT / "tasks").glob("*/task.py")}
NAMES = set(TASKS)
OWN_KINDS = set(get_args(Kind)) - {"classes", "multilabel", "number", "texts"}  # labels that a single task has
REGISTRY = "tasks/registry.py"
BUILT_ON = {"pair": {"classify"}}  # a pair is a classification of two texts
# heads and encodings of pairs have the names of tasks
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
LOSSES = "training/objectives"  # ... and losses those of labels
# strings that are the name of a task and mean something else
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


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Packages of tasks that a module imports."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for package in {name.split(".")[2] for name in names if name.startswith("clearhead.tasks.")} & PACKAGES:
            yield getattr(node, "lineno", 0), package


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Strings that are the name of a task."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            yield node.lineno, str(node.value)


def kinds(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Comparisons with a kind of labels that one task has, and tables by such kinds."""
    for node in ast.walk(tree):
        found: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any("kind" in ast.unparse(side) for side in sides):
                found = [part for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant)]
        elif isinstance(node, ast.Dict):
            found = [key for key in node.keys if isinstance(key, ast.Constant)]
            found = found if len({key.value for key in found if isinstance(key, ast.Constant)} & OWN_KINDS) > 1 else []
        for part in found:
            if isinstance(part, ast.Constant) and part.value in OWN_KINDS:
                yield part.lineno, str(part.value)


def mentions(name: str, text: str) -> list[str]:
    """What a file knows of single tasks."""
    tree = ast.parse(text)
    if name == REGISTRY:
        return []
    parts = name.split("/")
    own = parts[1] if parts[0] == "tasks" and parts[1] in PACKAGES else None
    allowed = {own, *BUILT_ON.get(own or "", ())}
    found = [f"{name}:{line} imports {package}" for line, package in imports(tree) if package not in allowed]
    if own is not None or name.startswith(HEADS):
        return found
    other = OTHER_MEANING.get(name, set())
    found += [f"{name}:{line} mentions {task!r}" for line, task in strings(tree) if task not in other]
    if name.startswith(LOSSES):
        return found
    return found + [f"{name}:{line} depends on labels of kind {kind!r}" for line, kind in kinds(tree)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_its_package_and_the_registry_know_a_task(path: Path) -> None:
    assert mentions(path.relative_to(ROOT).as_posix(), path.read_text()) == []


def test_every_exception_is_needed() -> None:
    for name, words in OTHER_MEANING.items():
        assert {word for _, word in strings(ast.parse((ROOT / name).read_text()))} == words, name


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
def test_a_mention_would_be_seen(line: str) -> None:
    assert mentions("predict/wrong.py", line)


def test_a_package_does_not_know_another_one() -> None:
    assert mentions("tasks/choice/wrong.py", "from clearhead.tasks.span.rows import check")
    assert not mentions("tasks/span/right.py", "from clearhead.tasks.span.rows import check")


def test_a_task_is_a_few_values() -> None:
    most = {Task: 10, RowCodec: 22, TaskHead: 6, Decoding: 4, AnswerCodec: 11, TaskMetrics: 10, ErrorExamples: 2}
    counts = {part: len(dataclasses.fields(part)) for part in most}
    assert {part.__name__: (counts[part], limit) for part, limit in most.items() if counts[part] > limit} == {}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_a_package_and_answers_of_its_own(name: str) -> None:
    task = TASKS[name]
    assert (ROOT / "tasks" / name / "task.py").is_file()
    for kind in task.answers.answer_types:
        assert issubclass(kind, Answer)
        assert kind is not Answer
        assert dataclasses.fields(kind)
        assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
