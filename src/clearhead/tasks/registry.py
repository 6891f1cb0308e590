"""All tasks by name, and detection of the task of a source or checkpoint."""

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

KIND_NAMES = {"classes": "classes", "multilabel": "several labels per row", "number": "numbers"}


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
    """Return the task of this name."""
    if name not in TASKS:
        raise InputError(f"Unknown task {files.to_printable(name, 40)!r}; expected one of {', '.join(TASKS)}.")
    return TASKS[name]


def detect_task(source: Source) -> Task | None:
    """Detect the task from the columns of a source; None: plain texts with labels."""
    layouts = ((task, task.rows.layout) for task in TASKS.values())
    return next((task for task, layout in layouts if layout.matches is not None and layout.matches(source)), None)


def find_task_of_format(kind: str) -> Task | None:
    """Return the task of a file format, regardless of its columns."""
    return next((task for task in TASKS.values() if task.rows.layout.source_kind == kind), None)


def infer_task(columns: Columns, space: LabelSpace) -> Task:
    """Infer the task from the number of texts and the kind of labels: numbers are regressed, two texts are a pair."""
    candidates = [
        task for task in TASKS.values() if task.rows.label_counter is None and space.kind in task.rows.label_kinds
    ]
    has_two_texts = columns.text_b is not None
    return next(task for task in candidates if task.rows.layout.second_text in (has_two_texts, None))


def infer_checkpoint_task(
    head: str, names: tuple[str, ...], config: Mapping[str, Any]
) -> tuple[Task, LabelSpace] | None:
    """Infer task and labels of a checkpoint without a passport; None if its head fits no task."""
    for task in TASKS.values():
        space = task.head.infer_labels(names, config) if task.head.kind == head else None
        if space is not None:
            return task, space
    return None


def check_task(task: Task, columns: Columns, space: LabelSpace) -> None:
    """Refuse columns and labels that the task cannot be trained on."""
    rows = task.rows
    if rows.label_counter is not None:
        if task.head.outputs_are_labels and len(space) < 2:
            raise InputError(
                f"Column {columns.label!r} has only the tag {', '.join(space.names)}; there is nothing to learn."
            )
        return
    if rows.layout.second_text is True and columns.text_b is None:
        column_setting = setting("text_b", "COLUMN")
        raise InputError(f"{task.name} needs a second text; name its column with {column_setting}.")
    if rows.layout.second_text is False and columns.text_b is not None:
        raise InputError(f"{task.name} takes one text, got two; use {setting('task', PAIR.name)}.")
    if space.kind not in rows.label_kinds:
        expected = "numbers" if rows.label_kinds == ("number",) else "classes"
        raise InputError(
            f"{task.name} expects {expected}, but column {columns.label!r} contains {KIND_NAMES[space.kind]}."
        )
    if space.kind != "number" and len(space) < (2 if space.kind == "classes" else 1):
        problem = f"all rows have the label {space.names[0]!r}" if space.names else "no row has a label"
        raise InputError(f"Column {columns.label!r}: {problem}; there is nothing to learn.")
