"""Decoding of the regress task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.activation import Activation
from clearhead.data.labels import LabelSpace
from clearhead.tasks.task import Answers, Calibration

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def decode(logits: Array, space: LabelSpace, calibration: Calibration) -> Answers:
    """Apply the activation to the single output."""
    import numpy as np

    output = logits.reshape(len(logits), -1)[:, 0].astype(np.float64)
    return Answers(labels=apply_activation(output, calibration.activation))


def apply_activation(output: Array, activation: Activation) -> Array:
    """Apply an activation without overflow for large outputs."""
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
