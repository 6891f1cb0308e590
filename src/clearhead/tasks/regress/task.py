"""Regression: predicts a number for one or two texts, such as similarity, urgency or stars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from clearhead.data.column_layout import ColumnLayout
from clearhead.data.labels import LabelSpace
from clearhead.data.row_codec import RowCodec
from clearhead.tasks.regress.answer import NUMBER_ANSWERS
from clearhead.tasks.regress.decoding import decode
from clearhead.tasks.regress.examples import select_number_errors
from clearhead.tasks.task import Answers, Calibration, Decoding, ErrorExamples, Task, TaskHead, TaskMetrics

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval

    Array = np.ndarray[Any, Any]


def measure(answers: Answers, targets: Array, space: LabelSpace, resamples: int) -> dict[str, Interval]:
    """Correlations and errors; `resamples` for the intervals."""
    from clearhead.metrics import measure as measure_metrics

    return measure_metrics("regress", targets, answers.labels, n=resamples)


def list_metrics(space: LabelSpace) -> tuple[str, ...]:
    """The names of the metrics."""
    from clearhead.metrics.measure import REGRESS as REGRESS_METRICS

    return tuple(REGRESS_METRICS)


def list_paired_metrics(space: LabelSpace) -> Mapping[str, Callable[..., float]]:
    """The metrics of paired comparisons."""
    from clearhead.metrics import mae, pearson, spearman

    return {"pearson": pearson, "spearman": spearman, "mae": mae}


def infer_labels(names: tuple[str, ...], config: Mapping[str, Any]) -> LabelSpace | None:
    """Infer regression from `problem_type`, or from a single output without it."""
    problem = config.get("problem_type")
    is_number = problem == "regression" or (problem is None and len(names) == 1)
    return LabelSpace(kind="number") if is_number else None


REGRESS = Task(
    name="regress",
    description="one or two texts, a number",
    rows=RowCodec(label_kinds=("number",), layout=ColumnLayout(numeric_label=True), is_reversible=True),
    head=TaskHead(kind="classify", output_names=lambda space: ("score",), infer_labels=infer_labels),
    objective=lambda space: "squared",
    decoding=Decoding(decode=decode, fit=lambda logits, targets, space: Calibration(), confidence=lambda answers: None),
    answers=NUMBER_ANSWERS,
    metrics=TaskMetrics(
        measure=measure,
        main=lambda space: "r2",  # correlations ignore scale: nearly constant predictions can have a high one
        names=list_metrics,
        is_correct=lambda answers, targets: None,
        paired_metrics=list_paired_metrics,
    ),
    examples=ErrorExamples(select=select_number_errors),
)
