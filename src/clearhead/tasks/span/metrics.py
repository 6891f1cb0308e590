"""Metrics of the span task, and paired comparison of two models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.span.decoding import get_answer_texts, score_answers
from clearhead.tasks.span.rows import SpanAnnotations
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval

    Array = np.ndarray[Any, Any]


RowScorer = tuple[Callable[..., float], Any]  # a metric of (rows, scores), and the scores of each row


def is_correct(answers: Answers, targets: Array) -> Array:
    """Whether the answer equals a true one, ignoring case, articles and punctuation."""
    import numpy as np

    return np.asarray(score_answers(get_answer_texts(answers, targets), targets)[0] > 0)


def measure(answers: Answers, targets: Array, space: LabelSpace, resamples: int) -> dict[str, Interval]:
    """Exact match and F1 as in SQuAD; questions on the same passage are resampled together."""
    from clearhead.metrics import measure_answers

    passage_ids: dict[str, int] = {}
    groups = [passage_ids.setdefault(truth.passage, len(passage_ids)) for truth in targets]
    scores = score_answers(get_answer_texts(answers, targets), targets)
    return measure_answers(*scores, n=resamples, groups=groups if len(passage_ids) > 1 else None)


def compute_chance_loss(data: PackedDataset) -> float:
    """The loss of a uniform distribution over the tokens of the passage."""
    import numpy as np

    annotations: SpanAnnotations = data.annotations
    windows = data.windows(np.arange(len(data)))
    return float(np.log(annotations.passage_ends[windows] - annotations.passage_starts[windows] + 1).mean())


def score_rows(answers: Answers, targets: Array, space: LabelSpace, metric: str) -> RowScorer:
    """Score each question by exact match or F1."""
    exact_match, f1, _ = score_answers(get_answer_texts(answers, targets), targets)
    return lambda _, row_scores: float(row_scores.mean()), exact_match if metric == "exact_match" else f1
