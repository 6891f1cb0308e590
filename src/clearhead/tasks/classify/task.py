"""One text, one label or several: sentiment, intent, topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clearhead.data.column_layout import ColumnLayout
from clearhead.data.labels import LabelSpace
from clearhead.data.row_codec import RowCodec
from clearhead.tasks.classify.answer import LABEL_ANSWERS
from clearhead.tasks.classify.decoding import confidence, fit, read
from clearhead.tasks.classify.examples import pick_labels
from clearhead.tasks.classify.metrics import compared, details, measure, names, right
from clearhead.tasks.task import Decoding, ErrorExamples, Task, TaskHead, TaskMetrics


def checkpoint_space(names: tuple[str, ...], config: Mapping[str, Any]) -> LabelSpace | None:
    """The labels of a checkpoint; a single output without a name for the problem is a number, and no label."""
    problem = config.get("problem_type")
    if problem == "regression" or (problem is None and len(names) == 1):
        return None
    return LabelSpace(names=names, kind="multilabel" if problem == "multi_label_classification" else "classes")


CLASSIFY = Task(
    name="classify",
    description="one text, one label or several",
    rows=RowCodec(label_kinds=("classes", "multilabel"), layout=ColumnLayout(second_text=False)),
    head=TaskHead(kind="classify", output_names=lambda space: space.names, infer_labels=checkpoint_space),
    objective=lambda space: "binary" if space.kind == "multilabel" else "cross_entropy",
    decoding=Decoding(
        decode=read, fit=fit, confidence=confidence, has_thresholds=lambda space: space.kind == "multilabel"
    ),
    answers=LABEL_ANSWERS,
    metrics=TaskMetrics(
        measure=measure,
        main=lambda space: "f1_micro" if space.kind == "multilabel" else "accuracy",
        names=names,
        is_correct=right,
        details=details,
        paired_metrics=compared,
    ),
    examples=ErrorExamples(select=pick_labels),
)
