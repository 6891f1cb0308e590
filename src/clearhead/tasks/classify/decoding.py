"""Logits to labels: probabilities at a fitted temperature, and a threshold for each label where there are several."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.task import Answers, Calibration

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

HALF = 0.5  # the threshold of a label before any is fitted


def read(logits: Array, space: LabelSpace, calibration: Calibration) -> Answers:
    """p = softmax(logits / temperature), or the sigmoid of each where a row can have several labels."""
    import numpy as np

    from clearhead.metrics import apply_temperature

    several = space.kind == "multilabel"
    probs = apply_temperature(logits, calibration.temperature, multilabel=several)
    if several:
        limits = np.array(calibration.thresholds or [HALF] * len(space))
        labels = (probs >= limits).astype(np.int64)
    else:
        labels = probs.argmax(-1)
    answers = Answers(labels=labels, probs=probs)
    if calibration.abstain_below is None:
        return answers
    return replace(answers, abstained=confidence(answers) < calibration.abstain_below)


def confidence(answers: Answers) -> Array:
    """How sure an answer is: the probability of its class; of several labels, that of the least sure decision."""
    import numpy as np

    assert answers.probs is not None
    if answers.labels.ndim == 1:
        return np.asarray(answers.probs.max(-1))
    return np.asarray(np.where(answers.labels == 1, answers.probs, 1 - answers.probs).min(-1))


def fit(logits: Array, targets: Array, space: LabelSpace) -> Calibration:
    """The temperature that makes probabilities honest, then a threshold for each label."""
    from clearhead.metrics import best_thresholds

    temperature = _temperature(logits, targets, space)
    if space.kind == "classes":
        return Calibration(temperature=temperature)
    probs = read(logits, space, Calibration(temperature=temperature)).probs
    assert probs is not None
    found = [
        best.threshold if targets[:, place].any() else HALF  # a label that dev never saw says nothing about a threshold
        for place, best in enumerate(best_thresholds(probs, targets))
    ]
    return Calibration(temperature=temperature, thresholds=tuple(float(threshold) for threshold in found))


def _temperature(logits: Array, targets: Array, space: LabelSpace) -> float:
    """Fitted with one error more than was seen: a few rows that are all right do not make a model infallible."""
    import numpy as np

    from clearhead.metrics import fit_temperature

    if len(targets) < 10:
        return 1.0
    if space.kind == "classes":
        ordered = np.sort(logits, -1)
        margins = ordered[:, -1] - ordered[:, -2]
        typical = int(np.argsort(margins, kind="stable")[len(margins) // 2])
        missed = int(np.argsort(logits[typical])[-2])
        extra: Any = np.array([missed], targets.dtype)
    else:
        typical = int(np.argsort(np.abs(logits).mean(-1), kind="stable")[len(logits) // 2])
        extra = np.asarray((logits[typical] < 0)[None], targets.dtype)
    more = np.concatenate([logits, logits[typical : typical + 1]])
    return float(fit_temperature(more, np.concatenate([targets, extra])))
