"""Tasks: a package each for what can be asked of a text; numpy only.

A `Task` knows its rows, head, objective, decoding, answers, metrics and error examples; `registry` knows every task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.tasks.answer import Answer, FoundSpan, Prediction
    from clearhead.tasks.encoded import Encoded, Part
    from clearhead.tasks.evaluation import CoveragePoint, Evaluation, evaluation
    from clearhead.tasks.examples import Example
    from clearhead.tasks.occlusion import Watching
    from clearhead.tasks.orders import both_orders
    from clearhead.tasks.parallel import Parallel
    from clearhead.tasks.ragged import Ragged
    from clearhead.tasks.registry import (
        TASKS,
        check_task,
        task_by_look,
        task_for,
        task_named,
        task_of_checkpoint,
        task_of_format,
    )
    from clearhead.tasks.task import Answers, Calibration, Task, mean_windows
    from clearhead.tasks.view import plain_view
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "answer": ("Answer", "FoundSpan", "Prediction"),
            "encoded": ("Encoded", "Part"),
            "evaluation": ("CoveragePoint", "Evaluation", "evaluation"),
            "examples": ("Example",),
            "occlusion": ("Watching",),
            "orders": ("both_orders",),
            "parallel": ("Parallel",),
            "ragged": ("Ragged",),
            "registry": (
                "TASKS",
                "check_task",
                "task_by_look",
                "task_for",
                "task_named",
                "task_of_checkpoint",
                "task_of_format",
            ),
            "task": ("Answers", "Calibration", "Task", "mean_windows"),
            "view": ("plain_view",),
        },
    )

__all__ = [
    "TASKS",
    "Answer",
    "Answers",
    "Calibration",
    "CoveragePoint",
    "Encoded",
    "Evaluation",
    "Example",
    "FoundSpan",
    "Parallel",
    "Part",
    "Prediction",
    "Ragged",
    "Task",
    "Watching",
    "both_orders",
    "check_task",
    "evaluation",
    "mean_windows",
    "plain_view",
    "task_by_look",
    "task_for",
    "task_named",
    "task_of_checkpoint",
    "task_of_format",
]
