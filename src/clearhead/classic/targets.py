"""What a model is fitted to: classes, tables of labels or numbers, checked against the label space."""

from __future__ import annotations

import numpy as np

from clearhead.data.labels import LabelSpace
from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike, check_class_ids, check_label_table, check_reals

LARGEST = 1e12  # weights are float32, and larger targets would leave them no digits


def count_outputs(space: LabelSpace) -> int:
    """How many logits a row has."""
    outputs = 1 if space.kind == "number" else len(space)
    if not outputs:
        raise InputError("the label space has no names; a classifier needs at least one.")
    return outputs


def check_targets(targets: ArrayLike, space: LabelSpace) -> Array:
    """(rows,) of classes or of numbers, or (rows, labels) of booleans; anything else is refused."""
    outputs = count_outputs(space)
    if space.kind == "classes":
        return check_class_ids(targets, "targets", n_classes=outputs)
    if space.kind == "number":
        made = check_reals(targets, "targets")
        if np.abs(made).max() > LARGEST:
            raise InputError(f"targets hold {np.abs(made).max():g}; rescale them to stay below {LARGEST:g}.")
        return made
    made = check_label_table(targets, "targets")
    if made.shape[1] != outputs:
        raise InputError(f"targets have {made.shape[1]} columns, and there are {outputs} labels.")
    return made
