"""Decoding of the choice task: a softmax over the scores of a question's options."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.choice.rows import OptionAnnotations
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.ragged import RaggedArray, compute_bounds
from clearhead.tasks.task import Answers, Calibration

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def collect_scores(values: Array, data: PackedDataset) -> RaggedArray:
    """Average the window scores of each option."""
    import numpy as np

    annotations = data.pack_annotations(np.arange(len(data)))
    scores = np.bincount(annotations["options"], weights=values[:, 0]) / np.bincount(annotations["options"])
    dataset_annotations: OptionAnnotations = data.annotations
    return RaggedArray(
        values=scores.astype(np.float32), bounds=compute_bounds(dataset_annotations.counts[data.table_rows])
    )


def decode(logits: RaggedArray, space: LabelSpace, calibration: Calibration) -> Answers:
    """Softmax over the options of each question."""
    import numpy as np

    scores = logits.to_padded(-np.inf).astype(np.float64) / calibration.temperature
    probs = np.exp(scores - scores.max(1, keepdims=True))
    probs /= probs.sum(1, keepdims=True)
    answers = Answers(labels=probs.argmax(1), probs=probs, extra=logits.counts)
    if calibration.abstain_below is None:
        return answers
    return replace(answers, abstained=get_confidence(answers) < calibration.abstain_below)


def get_confidence(answers: Answers) -> Array:
    """The probability of the chosen option."""
    import numpy as np

    return np.asarray(answers.probs.max(1))


def fit_calibration(logits: RaggedArray, targets: Array, space: LabelSpace) -> Calibration:
    """Fit the temperature; padded options have a probability of zero."""
    import numpy as np

    from clearhead.metrics import fit_temperature

    if len(targets) < 10:
        return Calibration()
    return Calibration(temperature=float(fit_temperature(np.maximum(logits.to_padded(-np.inf), -1e4), targets)))
