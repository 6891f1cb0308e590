"""Metrics of the tag task for entities and words, and paired comparison of two models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.ragged import RaggedArray
from clearhead.tasks.tag.decoding import extract_row_spans
from clearhead.tasks.task import Answers, MetricDetails

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval

    Array = np.ndarray[Any, Any]


MAX_CONFUSION_LABELS = 100  # largest stored confusion matrix
RowScorer = tuple[Callable[..., float], Any]  # a metric of (rows, scores), and the scores of each row


def is_correct(answers: Answers, targets: RaggedArray) -> Array:
    """Whether all tags of a row are correct."""
    import numpy as np

    error_counts = np.bincount(
        targets.row_indices, weights=answers.labels.values != targets.values, minlength=len(targets)
    )
    return np.asarray(error_counts == 0)


def measure(answers: Answers, targets: RaggedArray, space: LabelSpace, resamples: int) -> dict[str, Interval]:
    """Entity precision, recall and F1, and word accuracy; with plain tags only metrics of words."""
    from clearhead.metrics import accuracy, bootstrap, f1, measure_entities

    groups = targets.row_indices
    true, predicted = targets.values, answers.labels.values
    metrics = {"accuracy": bootstrap(accuracy, true, predicted, n=resamples, groups=groups)}
    if space.scheme == "plain":
        return metrics | {"f1_macro": bootstrap(f1, true, predicted, n=resamples, groups=groups)}
    return measure_entities(_count_entities(answers, targets, space), n=resamples) | metrics


def _count_entities(answers: Answers, targets: RaggedArray, space: LabelSpace) -> Any:
    from clearhead.metrics import count_entities

    return count_entities(extract_row_spans(targets, space), extract_row_spans(answers.labels, space))


def compute_details(answers: Answers, targets: RaggedArray, space: LabelSpace) -> MetricDetails:
    """Scores per entity type; with plain tags, scores per tag and the confusion matrix."""
    from clearhead.metrics import confusion_matrix, entity_table, label_table

    true, predicted = targets.values, answers.labels.values
    if space.scheme != "plain":
        label_scores = tuple(entity_table(_count_entities(answers, targets, space)))
        return MetricDetails(label_scores=label_scores, probs=answers.probs.values, truth=true)
    confusion = None
    if len(space) <= MAX_CONFUSION_LABELS:
        confusion = tuple(tuple(int(count) for count in row) for row in confusion_matrix(true, predicted, len(space)))
    label_scores = tuple(label_table(true, predicted, space.names))
    return MetricDetails(confusion=confusion, label_scores=label_scores, probs=answers.probs.values, truth=true)


def compute_chance_loss(data: PackedDataset) -> float:
    """The entropy of the tag distribution."""
    import numpy as np

    counts = np.bincount(data.targets.values)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def compute_chance_score(data: PackedDataset) -> float:
    """Zero: a model that always predicts O finds no entity."""
    return 0.0


def score_rows(answers: Answers, targets: RaggedArray, space: LabelSpace, metric: str) -> RowScorer:
    """Count correct, predicted and true entities of each row; for accuracy, correct and all words."""
    import numpy as np

    from clearhead.metrics import count_entities, entity_f1, entity_precision, entity_recall

    if metric == "accuracy":
        hits = np.bincount(targets.row_indices, weights=answers.labels.values == targets.values, minlength=len(targets))
        return lambda _, row_scores: float(row_scores[:, 0].sum() / row_scores[:, 1].sum()), np.stack(
            [hits, targets.counts], 1
        )

    types = sorted(space.names if space.scheme == "plain" else {name[2:] for name in space.names if name != "O"})
    counts = count_entities(extract_row_spans(targets, space), extract_row_spans(answers.labels, space), types).array
    average = "macro" if metric == "f1_macro" else "micro"
    score = {"precision": entity_precision, "recall": entity_recall}.get(metric, entity_f1)
    return lambda _, row_scores: float(score(row_scores, average=average)), counts
