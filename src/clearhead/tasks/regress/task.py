"""One text or two, a number: how similar, how urgent, how many stars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from clearhead.data.column_layout import ColumnLayout
from clearhead.data.labels import LabelSpace
from clearhead.data.row_codec import RowCodec
from clearhead.tasks.regress.answer import NUMBER_ANSWERS
from clearhead.tasks.regress.decoding import read
from clearhead.tasks.regress.examples import pick_numbers
from clearhead.tasks.task import Answers, Calibration, Decoding, ErrorExamples, Task, TaskHead, TaskMetrics

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval

    Array = np.ndarray[Any, Any]


def measure(answers: Answers, targets: Array, space: LabelSpace, n: int) -> dict[str, Interval]:
    """Correlations and errors, with n resamples for the intervals."""
    from clearhead.metrics import measure as measured

    return measured("regress", targets, answers.labels, n=n)


def names(space: LabelSpace) -> tuple[str, ...]:
    """Correlations and errors."""
    from clearhead.metrics.measure import REGRESS as KNOWN

    return tuple(KNOWN)


def compared(space: LabelSpace) -> Mapping[str, Callable[..., float]]:
    """What two models are compared by."""
    from clearhead.metrics import mae, pearson, spearman

    return {"pearson": pearson, "spearman": spearman, "mae": mae}


def checkpoint_space(names: tuple[str, ...], config: Mapping[str, Any]) -> LabelSpace | None:
    """A checkpoint that says so, or that has a single output and says nothing."""
    problem = config.get("problem_type")
    is_number = problem == "regression" or (problem is None and len(names) == 1)
    return LabelSpace(kind="number") if is_number else None


REGRESS = Task(
    name="regress",
    description="one text or two, a number",
    rows=RowCodec(label_kinds=("number",), layout=ColumnLayout(numeric_label=True), is_reversible=True),
    head=TaskHead(kind="classify", output_names=lambda space: ("score",), infer_labels=checkpoint_space),
    objective=lambda space: "squared",
    decoding=Decoding(decode=read, fit=lambda logits, targets, space: Calibration(), confidence=lambda answers: None),
    answers=NUMBER_ANSWERS,
    metrics=TaskMetrics(
        measure=measure,
        main=lambda space: "r2",  # a correlation does not see the unit: answers all but equal can have a high one
        names=names,
        is_correct=lambda answers, targets: None,
        paired_metrics=compared,
    ),
    examples=ErrorExamples(select=pick_numbers),
)
