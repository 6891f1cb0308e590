"""Decoding of the classify task: temperature scaling, and a threshold per label for multilabel data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.task import Answers, Calibration

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

DEFAULT_THRESHOLD = 0.5  # until a threshold is fitted


def decode(logits: Array, space: LabelSpace, calibration: Calibration) -> Answers:
    """Softmax of logits / temperature, or sigmoids for multilabel data."""
    import numpy as np

    from clearhead.metrics import apply_temperature

    is_multilabel = space.kind == "multilabel"
    probs = apply_temperature(logits, calibration.temperature, multilabel=is_multilabel)
    if is_multilabel:
        thresholds = np.array(calibration.thresholds or [DEFAULT_THRESHOLD] * len(space))
        labels = (probs >= thresholds).astype(np.int64)
    else:
        labels = probs.argmax(-1)
    answers = Answers(labels=labels, probs=probs)
    if calibration.abstain_below is None:
        return answers
    return replace(answers, abstained=get_confidence(answers) < calibration.abstain_below)


def get_confidence(answers: Answers) -> Array:
    """The probability of the predicted class; for multilabel data, of the least confident decision."""
    import numpy as np

    assert answers.probs is not None
    if answers.labels.ndim == 1:
        return np.asarray(answers.probs.max(-1))
    return np.asarray(np.where(answers.labels == 1, answers.probs, 1 - answers.probs).min(-1))


def fit_calibration(logits: Array, targets: Array, space: LabelSpace) -> Calibration:
    """Fit the temperature, then a threshold for each label of multilabel data."""
    from clearhead.metrics import best_thresholds

    temperature = _fit_temperature(logits, targets, space)
    if space.kind == "classes":
        return Calibration(temperature=temperature)
    probs = decode(logits, space, Calibration(temperature=temperature)).probs
    assert probs is not None
    thresholds = [
        best.threshold if targets[:, label].any() else DEFAULT_THRESHOLD  # labels without dev rows keep the default
        for label, best in enumerate(best_thresholds(probs, targets))
    ]
    return Calibration(temperature=temperature, thresholds=tuple(float(threshold) for threshold in thresholds))


def _fit_temperature(logits: Array, targets: Array, space: LabelSpace) -> float:
    """Fit the temperature with one added error, so that a perfect dev set does not lead to infinite confidence."""
    import numpy as np

    from clearhead.metrics import fit_temperature

    if len(targets) < 10:
        return 1.0
    if space.kind == "classes":
        ordered = np.sort(logits, -1)
        margins = ordered[:, -1] - ordered[:, -2]
        median_row = int(np.argsort(margins, kind="stable")[len(margins) // 2])
        runner_up = int(np.argsort(logits[median_row])[-2])
        extra_target: Any = np.array([runner_up], targets.dtype)
    else:
        median_row = int(np.argsort(np.abs(logits).mean(-1), kind="stable")[len(logits) // 2])
        extra_target = np.asarray((logits[median_row] < 0)[None], targets.dtype)
    extended = np.concatenate([logits, logits[median_row : median_row + 1]])
    return float(fit_temperature(extended, np.concatenate([targets, extra_target])))
