"""Every task by its name, and the task that a source, columns or a checkpoint are meant for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clearhead import files
from clearhead.caller import setting
from clearhead.data.columns import Columns
from clearhead.data.labels import LabelSpace
from clearhead.data.sources.source import Source
from clearhead.errors import InputError
from clearhead.tasks.choice.task import CHOICE
from clearhead.tasks.classify.task import CLASSIFY
from clearhead.tasks.pair.task import PAIR
from clearhead.tasks.regress.task import REGRESS
from clearhead.tasks.span.task import SPAN
from clearhead.tasks.tag.task import TAG
from clearhead.tasks.task import Task

TASKS: dict[str, Task] = {task.name: task for task in (CLASSIFY, PAIR, REGRESS, TAG, SPAN, CHOICE)}

KIND_NAMES = {"classes": "classes", "multilabel": "several labels a row", "number": "numbers"}


__all__ = [
    "PAIR",
    "TAG",
    "TASKS",
    "check_task",
    "detect_task",
    "find_task_of_format",
    "get_task",
    "infer_checkpoint_task",
    "infer_task",
]  # aspect sentiment combines PAIR and TAG


def get_task(name: str) -> Task:
    """A task by its name."""
    if name not in TASKS:
        raise InputError(f"There is no task {files.to_printable(name, 40)!r}; there are {', '.join(TASKS)}.")
    return TASKS[name]


def detect_task(source: Source) -> Task | None:
    """The task that the columns of a source can only be meant for; None: a text with a label."""
    layouts = ((task, task.rows.layout) for task in TASKS.values())
    return next((task for task, layout in layouts if layout.matches is not None and layout.matches(source)), None)


def find_task_of_format(kind: str) -> Task | None:
    """The task that a file format is meant for, whatever its columns are."""
    return next((task for task in TASKS.values() if task.rows.layout.source_kind == kind), None)


def infer_task(columns: Columns, space: LabelSpace) -> Task:
    """The task for one text or two with labels of a cell: numbers are regressed, two texts are a pair."""
    fitting = [
        task for task in TASKS.values() if task.rows.label_counter is None and space.kind in task.rows.label_kinds
    ]
    second = columns.text_b is not None
    return next(task for task in fitting if task.rows.layout.second_text in (second, None))


def infer_checkpoint_task(
    head: str, names: tuple[str, ...], config: Mapping[str, Any]
) -> tuple[Task, LabelSpace] | None:
    """The task of a checkpoint that clearhead did not train, and its labels; None: its head answers no task."""
    for task in TASKS.values():
        space = task.head.infer_labels(names, config) if task.head.kind == head else None
        if space is not None:
            return task, space
    return None


def check_task(task: Task, columns: Columns, space: LabelSpace) -> None:
    """One sentence when a task cannot be learned from these columns and labels."""
    rows = task.rows
    if rows.label_counter is not None:
        if task.head.outputs_are_labels and len(space) < 2:
            raise InputError(f"Column {columns.label!r} has no tag but {', '.join(space.names)}; nothing to learn.")
        return
    if rows.layout.second_text is True and columns.text_b is None:
        which = setting("text_b", "COLUMN")
        raise InputError(f"{task.name} needs a second text; say which column holds it with {which}.")
    if rows.layout.second_text is False and columns.text_b is not None:
        raise InputError(f"{task.name} reads one text, and there are two; use {setting('task', PAIR.name)}.")
    if space.kind not in rows.label_kinds:
        wanted = "numbers" if rows.label_kinds == ("number",) else "classes"
        raise InputError(f"{task.name} learns {wanted}, and column {columns.label!r} holds {KIND_NAMES[space.kind]}.")
    if space.kind != "number" and len(space) < (2 if space.kind == "classes" else 1):
        only = f"all rows have the label {space.names[0]!r}" if space.names else "no row has a label"
        raise InputError(f"Column {columns.label!r}: {only}; there is nothing to learn.")
