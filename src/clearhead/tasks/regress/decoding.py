"""The single output to a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.activation import Activation
from clearhead.data.labels import LabelSpace
from clearhead.tasks.task import Answers, Calibration

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def read(logits: Array, space: LabelSpace, calibration: Calibration) -> Answers:
    """The single output is the answer, or what its activation makes of it."""
    import numpy as np

    output = logits.reshape(len(logits), -1)[:, 0].astype(np.float64)
    return Answers(labels=activated(output, calibration.activation))


def activated(output: Array, activation: Activation) -> Array:
    """An output after its activation; large numbers overflow in none of them."""
    import numpy as np

    if activation == "identity":
        return output
    if activation == "sigmoid":
        return np.exp(-np.logaddexp(0, -output))
    if activation == "tanh":
        return np.tanh(output)
    if activation == "relu":
        return np.maximum(output, 0)
    return np.logaddexp(0, output) if activation == "softplus" else -np.logaddexp(0, -output)
