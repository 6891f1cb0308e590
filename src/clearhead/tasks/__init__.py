"""Tasks: encode a row, read logits into answers, measure answers. numpy only."""

from __future__ import annotations

from clearhead import files as config
from clearhead.caller import setting
from clearhead.data.columns import Columns
from clearhead.data.labels import LabelSpace
from clearhead.data.source import Source
from clearhead.errors import InputError
from clearhead.tasks.choice.decoding import CHOICE, looks_optional
from clearhead.tasks.classify.decoding import CLASSIFY
from clearhead.tasks.pair.task import PAIR
from clearhead.tasks.regress.decoding import REGRESS
from clearhead.tasks.span.decoding import SPAN, looks_asked
from clearhead.tasks.tag.columns import looks_tagged
from clearhead.tasks.tag.decoding import TAG
from clearhead.tasks.task import Answers, Asked, Reading, Task

TASKS: dict[str, Task] = {task.name: task for task in (CLASSIFY, PAIR, REGRESS, TAG, SPAN, CHOICE)}
TOLD_BY_LOOK = {"tag": looks_tagged, "span": looks_asked, "choice": looks_optional}


def task_named(name: str) -> Task:
    """A task by its name."""
    if name not in TASKS:
        raise InputError(f"There is no task {config.shown(name, 40)!r}; there are {', '.join(TASKS)}.")
    return TASKS[name]


def task_by_look(source: Source) -> Task | None:
    """The task that the columns of a source can only be meant for; None: a text with a label."""
    return next((TASKS[name] for name, looks in TOLD_BY_LOOK.items() if looks(source)), None)


def task_for(columns: Columns, space: LabelSpace) -> Task:
    """The task that columns and labels look like: numbers are regressed, two texts are a pair."""
    if space.kind == "number":
        return REGRESS
    return CLASSIFY if columns.text_b is None else PAIR


def check_task(task: Task, columns: Columns, space: LabelSpace) -> None:
    """One sentence when a task cannot be learned from these columns and labels."""
    if task.counter is not None:
        if space.kind == "tags" and len(space) < 2:
            raise InputError(f"Column {columns.label!r} has no tag but {', '.join(space.names)}; nothing to learn.")
        return
    if task.second is True and columns.text_b is None:
        which = setting("text_b", "COLUMN")
        raise InputError(f"{task.name} needs a second text; say which column holds it with {which}.")
    if task.second is False and columns.text_b is not None:
        raise InputError(f"{task.name} reads one text, and there are two; use {setting('task', 'pair')}.")
    if space.kind not in task.kinds:
        wanted = "numbers" if task.kinds == ("number",) else "classes"
        raise InputError(f"{task.name} learns {wanted}, and column {columns.label!r} holds {SAID[space.kind]}.")
    if space.kind != "number" and len(space) < (2 if space.kind == "classes" else 1):
        only = f"all rows have the label {space.names[0]!r}" if space.names else "no row has a label"
        raise InputError(f"Column {columns.label!r}: {only}; there is nothing to learn.")


SAID = {"classes": "classes", "multilabel": "several labels a row", "number": "numbers"}

__all__ = [
    "TASKS",
    "Answers",
    "Asked",
    "Reading",
    "Task",
    "check_task",
    "task_by_look",
    "task_for",
    "task_named",
]
