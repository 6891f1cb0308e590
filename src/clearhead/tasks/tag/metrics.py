"""How tags are measured: whole entities and words; two models compared on the same texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.ragged import RaggedArray
from clearhead.tasks.tag.decoding import row_spans
from clearhead.tasks.task import Answers, MetricDetails

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval

    Array = np.ndarray[Any, Any]


MOST_SQUARE = 100  # tags of which a confusion matrix is kept
Parts = tuple[Callable[..., float], Any]  # a metric of (rows, scores), and the scores of each row


def right(answers: Answers, targets: RaggedArray) -> Array:
    """Whether every word of a row has its tag."""
    import numpy as np

    wrong = np.bincount(targets.row_indices, weights=answers.labels.values != targets.values, minlength=len(targets))
    return np.asarray(wrong == 0)


def measure(answers: Answers, targets: RaggedArray, space: LabelSpace, n: int) -> dict[str, Interval]:
    """Precision, recall and F1 of whole entities and the accuracy of words; of plain tags, those of words alone."""
    from clearhead.metrics import accuracy, bootstrap, f1, measure_entities

    groups = targets.row_indices
    true, said = targets.values, answers.labels.values
    made = {"accuracy": bootstrap(accuracy, true, said, n=n, groups=groups)}
    if space.scheme == "plain":
        return made | {"f1_macro": bootstrap(f1, true, said, n=n, groups=groups)}
    return measure_entities(_counts(answers, targets, space), n=n) | made


def _counts(answers: Answers, targets: RaggedArray, space: LabelSpace) -> Any:
    from clearhead.metrics import count_entities

    return count_entities(row_spans(targets, space), row_spans(answers.labels, space))


def details(answers: Answers, targets: RaggedArray, space: LabelSpace) -> MetricDetails:
    """Scores by type of entity; of plain tags, by tag and against each other."""
    from clearhead.metrics import confusion_matrix, entity_table, label_table

    true, said = targets.values, answers.labels.values
    if space.scheme != "plain":
        table = tuple(entity_table(_counts(answers, targets, space)))
        return MetricDetails(label_scores=table, probs=answers.probs.values, truth=true)
    square = None
    if len(space) <= MOST_SQUARE:
        square = tuple(tuple(int(count) for count in row) for row in confusion_matrix(true, said, len(space)))
    table = tuple(label_table(true, said, space.names))
    return MetricDetails(confusion=square, label_scores=table, probs=answers.probs.values, truth=true)


def baseline(data: PackedDataset) -> float:
    """The entropy of the tags."""
    import numpy as np

    counts = np.bincount(data.targets.values)
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())


def floor(data: PackedDataset) -> float:
    """No entity is found by one who says O throughout."""
    return 0.0


def row_scores(answers: Answers, targets: RaggedArray, space: LabelSpace, metric: str) -> Parts:
    """Of each sentence its entities that are right, said and true; of accuracy its words, and those that are right."""
    import numpy as np

    from clearhead.metrics import count_entities, entity_f1, entity_precision, entity_recall

    if metric == "accuracy":
        hits = np.bincount(targets.row_indices, weights=answers.labels.values == targets.values, minlength=len(targets))
        return lambda _, said: float(said[:, 0].sum() / said[:, 1].sum()), np.stack([hits, targets.counts], 1)

    types = sorted(space.names if space.scheme == "plain" else {name[2:] for name in space.names if name != "O"})
    counts = count_entities(row_spans(targets, space), row_spans(answers.labels, space), types).array
    average = "macro" if metric == "f1_macro" else "micro"
    score = {"precision": entity_precision, "recall": entity_recall}.get(metric, entity_f1)
    return lambda _, said: float(score(said, average=average)), counts
