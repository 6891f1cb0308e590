"""How answers are measured, and two models compared on the same questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.span.decoding import scores_of, texts
from clearhead.tasks.span.rows import SpanAnnotations
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval

    Array = np.ndarray[Any, Any]


Parts = tuple[Callable[..., float], Any]  # a metric of (rows, scores), and the scores of each row


def right(answers: Answers, targets: Array) -> Array:
    """Whether an answer is one of the right ones, but for case, articles and punctuation."""
    import numpy as np

    return np.asarray(scores_of(texts(answers, targets), targets)[0] > 0)


def measure(answers: Answers, targets: Array, space: LabelSpace, n: int) -> dict[str, Interval]:
    """Exact match and F1 by SQuAD's rules; questions on one passage are drawn together."""
    from clearhead.metrics import measure_answers

    numbers: dict[str, int] = {}
    groups = [numbers.setdefault(truth.passage, len(numbers)) for truth in targets]
    found = scores_of(texts(answers, targets), targets)
    return measure_answers(*found, n=n, groups=groups if len(numbers) > 1 else None)


def baseline(data: PackedDataset) -> float:
    """The loss of one who takes every token of the passage for as likely."""
    import numpy as np

    marks: SpanAnnotations = data.annotations
    windows = data.windows(np.arange(len(data)))
    return float(np.log(marks.last[windows] - marks.first[windows] + 1).mean())


def row_scores(answers: Answers, targets: Array, space: LabelSpace, metric: str) -> Parts:
    """Of each question its exact match or its F1."""
    em, f1, _ = scores_of(texts(answers, targets), targets)
    return lambda _, said: float(said.mean()), em if metric == "exact_match" else f1
