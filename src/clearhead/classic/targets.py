"""Targets of a fit: classes, tables of labels or numbers, checked against the label space."""

from __future__ import annotations

import numpy as np

from clearhead.data.labels import LabelSpace
from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike, check_class_ids, check_label_table, check_reals

MAX_TARGET = 1e12  # weights are float32, which is too coarse for larger targets


def count_outputs(space: LabelSpace) -> int:
    """Number of logits per row."""
    outputs = 1 if space.kind == "number" else len(space)
    if not outputs:
        raise InputError("The label space has no names; a classifier needs at least one.")
    return outputs


def check_targets(targets: ArrayLike, space: LabelSpace) -> Array:
    """Convert targets to class ids or numbers (rows,), or to booleans (rows, labels); anything else is an error."""
    outputs = count_outputs(space)
    if space.kind == "classes":
        return check_class_ids(targets, "targets", n_classes=outputs)
    if space.kind == "number":
        checked = check_reals(targets, "targets")
        if np.abs(checked).max() > MAX_TARGET:
            raise InputError(f"targets contain {np.abs(checked).max():g}; rescale them to stay below {MAX_TARGET:g}.")
        return checked
    checked = check_label_table(targets, "targets")
    if checked.shape[1] != outputs:
        raise InputError(f"targets have {checked.shape[1]} columns, expected one per label ({outputs}).")
    return checked
