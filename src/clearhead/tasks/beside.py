"""Two models beside each other where answers are no plain labels: what of each row a metric is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.ragged import Ragged
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Parts = tuple[Callable[..., float], Any]  # a metric of (rows, parts), and a part for each row


def tag_parts(answers: Answers, targets: Ragged, space: LabelSpace, metric: str) -> Parts:
    """Of each sentence its entities that are right, said and true; of accuracy its words, and those that are right."""
    import numpy as np

    from clearhead.metrics import entity_counts, entity_f1, entity_precision, entity_recall
    from clearhead.tasks.tag.decoding import row_spans

    if metric == "accuracy":
        hits = np.bincount(targets.owners, weights=answers.labels.values == targets.values, minlength=len(targets))
        return lambda _, said: float(said[:, 0].sum() / said[:, 1].sum()), np.stack([hits, targets.counts], 1)

    types = sorted(space.names if space.scheme == "plain" else {name[2:] for name in space.names if name != "O"})
    counts = entity_counts(row_spans(targets, space), row_spans(answers.labels, space), types).array
    average = "macro" if metric == "f1_macro" else "micro"
    score = {"precision": entity_precision, "recall": entity_recall}.get(metric, entity_f1)
    return lambda _, said: float(score(said, average=average)), counts


def answer_parts(answers: Answers, targets: Array, space: LabelSpace, metric: str) -> Parts:
    """Of each question its exact match or its F1."""
    from clearhead.tasks.span.decoding import scores_of, texts

    em, f1, _ = scores_of(texts(answers, targets), targets)
    return lambda _, said: float(said.mean()), em if metric == "exact_match" else f1


def option_parts(answers: Answers, targets: Array, space: LabelSpace, metric: str) -> Parts:
    """Of each question whether it is right, or the log of the probability of what is."""
    import numpy as np

    own = answers.probs[np.arange(len(targets)), targets]
    made = -np.log(np.maximum(own, 1e-15)) if metric == "log_loss" else answers.labels == targets
    return lambda _, said: float(said.mean()), np.asarray(made, np.float64)
