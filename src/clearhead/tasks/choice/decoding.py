"""A score for each option to the one that is taken, by a softmax over the options of a question."""

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


def collect(values: Array, data: PackedDataset) -> RaggedArray:
    """A score for each option: the mean of its windows."""
    import numpy as np

    found = data.pack_annotations(np.arange(len(data)))
    total = np.bincount(found["options"], weights=values[:, 0]) / np.bincount(found["options"])
    marks: OptionAnnotations = data.annotations
    return RaggedArray(values=total.astype(np.float32), bounds=compute_bounds(marks.counts[data.table_rows]))


def read(logits: RaggedArray, space: LabelSpace, calibration: Calibration) -> Answers:
    """softmax over the options of each question."""
    import numpy as np

    scores = logits.to_padded(-np.inf).astype(np.float64) / calibration.temperature
    probs = np.exp(scores - scores.max(1, keepdims=True))
    probs /= probs.sum(1, keepdims=True)
    answers = Answers(labels=probs.argmax(1), probs=probs, extra=logits.counts)
    if calibration.abstain_below is None:
        return answers
    return replace(answers, abstained=confidence(answers) < calibration.abstain_below)


def confidence(answers: Answers) -> Array:
    """The probability of the option that is taken."""
    import numpy as np

    return np.asarray(answers.probs.max(1))


def fit(logits: RaggedArray, targets: Array, space: LabelSpace) -> Calibration:
    """The temperature that makes probabilities honest; where an option is missing it can never be taken."""
    import numpy as np

    from clearhead.metrics import fit_temperature

    if len(targets) < 10:
        return Calibration()
    return Calibration(temperature=float(fit_temperature(np.maximum(logits.to_padded(-np.inf), -1e4), targets)))
