"""Tasks, one package per kind of prediction; numpy only.

A `Task` bundles its row codec, head, objective, decoding, answers, metrics and error examples; `registry` lists all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.tasks.answer import Answer, FoundSpan, Prediction
    from clearhead.tasks.evaluation import CoveragePoint, Evaluation, evaluate_logits
    from clearhead.tasks.examples import Example
    from clearhead.tasks.occlusion import OcclusionPlan
    from clearhead.tasks.orders import read_in_both_orders
    from clearhead.tasks.packed import PackedBatch, PackedDataset
    from clearhead.tasks.parallel import ParallelDataset
    from clearhead.tasks.ragged import RaggedArray
    from clearhead.tasks.registry import (
        TASKS,
        check_task,
        detect_task,
        find_task_of_format,
        get_task,
        infer_checkpoint_task,
        infer_task,
    )
    from clearhead.tasks.task import Answers, Calibration, Task, average_windows
    from clearhead.tasks.view import build_plain_view
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "answer": ("Answer", "FoundSpan", "Prediction"),
            "packed": ("PackedDataset", "PackedBatch"),
            "evaluation": ("CoveragePoint", "Evaluation", "evaluate_logits"),
            "examples": ("Example",),
            "occlusion": ("OcclusionPlan",),
            "orders": ("read_in_both_orders",),
            "parallel": ("ParallelDataset",),
            "ragged": ("RaggedArray",),
            "registry": (
                "TASKS",
                "check_task",
                "detect_task",
                "infer_task",
                "get_task",
                "infer_checkpoint_task",
                "find_task_of_format",
            ),
            "task": ("Answers", "Calibration", "Task", "average_windows"),
            "view": ("build_plain_view",),
        },
    )

__all__ = [
    "TASKS",
    "Answer",
    "Answers",
    "Calibration",
    "CoveragePoint",
    "Evaluation",
    "Example",
    "FoundSpan",
    "OcclusionPlan",
    "PackedBatch",
    "PackedDataset",
    "ParallelDataset",
    "Prediction",
    "RaggedArray",
    "Task",
    "average_windows",
    "build_plain_view",
    "check_task",
    "detect_task",
    "evaluate_logits",
    "find_task_of_format",
    "get_task",
    "infer_checkpoint_task",
    "infer_task",
    "read_in_both_orders",
]
