"""Tasks: a package each for what can be asked of a text; numpy only.

A `Task` knows its rows, head, objective, decoding, answers, metrics and error examples; `registry` knows every task.
"""

from __future__ import annotations

from clearhead.data.columns import ColumnRoles
from clearhead.tasks.registry import TASKS, check_task, task_by_look, task_for, task_named
from clearhead.tasks.task import Answers, Calibration, Task

__all__ = [
    "TASKS",
    "Answers",
    "Calibration",
    "ColumnRoles",
    "Task",
    "check_task",
    "task_by_look",
    "task_for",
    "task_named",
]
