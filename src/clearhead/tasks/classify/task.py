"""Text classification with one or several labels: sentiment, intent, topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clearhead.data.column_layout import ColumnLayout
from clearhead.data.labels import LabelSpace
from clearhead.data.row_codec import RowCodec
from clearhead.tasks.classify.answer import LABEL_ANSWERS
from clearhead.tasks.classify.decoding import decode, fit_calibration, get_confidence
from clearhead.tasks.classify.examples import select_label_errors
from clearhead.tasks.classify.metrics import compute_details, is_correct, list_metrics, list_paired_metrics, measure
from clearhead.tasks.task import Decoding, ErrorExamples, Task, TaskHead, TaskMetrics


def infer_labels(names: tuple[str, ...], config: Mapping[str, Any]) -> LabelSpace | None:
    """Infer the labels of a checkpoint; a single output without `problem_type` is a regression."""
    problem = config.get("problem_type")
    if problem == "regression" or (problem is None and len(names) == 1):
        return None
    return LabelSpace(names=names, kind="multilabel" if problem == "multi_label_classification" else "classes")


CLASSIFY = Task(
    name="classify",
    description="one text, one or more labels",
    rows=RowCodec(label_kinds=("classes", "multilabel"), layout=ColumnLayout(second_text=False)),
    head=TaskHead(kind="classify", output_names=lambda space: space.names, infer_labels=infer_labels),
    objective=lambda space: "binary" if space.kind == "multilabel" else "cross_entropy",
    decoding=Decoding(
        decode=decode,
        fit=fit_calibration,
        confidence=get_confidence,
        has_thresholds=lambda space: space.kind == "multilabel",
    ),
    answers=LABEL_ANSWERS,
    metrics=TaskMetrics(
        measure=measure,
        main=lambda space: "f1_micro" if space.kind == "multilabel" else "accuracy",
        names=list_metrics,
        is_correct=is_correct,
        details=compute_details,
        paired_metrics=list_paired_metrics,
    ),
    examples=ErrorExamples(select=select_label_errors),
)
