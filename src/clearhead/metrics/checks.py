"""Input checks of metrics: class ids, tables of 0 and 1, finite numbers, probabilities; anything else is an error."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from clearhead.errors import InputError
from clearhead.html import pluralize

Array: TypeAlias = np.ndarray[Any, Any]
ArrayLike: TypeAlias = npt.ArrayLike

SUM_TOLERANCE = 1e-3  # largest deviation from 1 of a row's probability sum; half precision rounds that much

MAX_MAGNITUDE = 1e100  # squares of larger values could overflow


def check_numbers(values: ArrayLike, name: str) -> Array:
    """Convert values to a numeric array with at least one row."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} must be an array of numbers, but its rows differ in length.") from error
    if array.size == 0:
        raise InputError(f"{name} is empty; a metric needs at least one row.")
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must contain numbers (class ids start at 0), got {array.dtype.name} values.")
    if array.ndim == 0:
        raise InputError(f"{name} must be an array, got the single value {array}.")
    return array


def check_finite(values: ArrayLike, name: str) -> Array:
    """Convert values to float64, without NaN and infinity."""
    array = check_numbers(values, name).astype(np.float64)
    invalid = np.argwhere(~np.isfinite(array))
    if len(invalid):
        position = ", ".join(str(index) for index in invalid[0])
        raise InputError(f"{name}[{position}] is {array[tuple(invalid[0])]}; every value must be a finite number.")
    if np.abs(array).max() > MAX_MAGNITUDE:
        largest = np.abs(array).max()
        raise InputError(f"{name} contains {largest:g}; values above {MAX_MAGNITUDE:g} cannot be squared safely.")
    return array


def check_reals(values: ArrayLike, name: str) -> Array:
    """Convert values to one finite number per row."""
    return check_one_per_row(check_finite(values, name), name)


def check_class_ids(values: ArrayLike, name: str, *, n_classes: int | None = None) -> Array:
    """Convert values to one class id per row, from 0 to n_classes - 1."""
    floats = check_one_per_row(check_finite(values, name), name)
    class_ids = floats.astype(np.int64)
    invalid = np.flatnonzero((class_ids != floats) | (floats < 0))
    if len(invalid):
        raise InputError(f"{name}[{invalid[0]}] is {floats[invalid[0]]:g}; class ids are integers >= 0.")
    invalid = np.flatnonzero(class_ids >= n_classes) if n_classes is not None else invalid
    if len(invalid):
        raise InputError(
            f"{name}[{invalid[0]}] is {class_ids[invalid[0]]}, but there are {n_classes} classes, numbered from 0."
        )
    return class_ids


def check_binary(values: ArrayLike, name: str) -> Array:
    """Convert zeros and ones of any shape to booleans."""
    array = check_numbers(values, name)
    invalid = np.argwhere((array != 0) & (array != 1))
    if len(invalid):
        position = ", ".join(str(index) for index in invalid[0])
        raise InputError(f"{name}[{position}] is {array[tuple(invalid[0])]}; only 0 and 1 are allowed.")
    return array.astype(bool)


def check_label_table(values: ArrayLike, name: str) -> Array:
    """Convert a table of zeros and ones, (texts, labels), to booleans."""
    table = check_binary(values, name)
    if table.ndim != 2:
        raise InputError(f"{name} must be a table of 0 and 1 of shape (rows, labels), got shape {table.shape}.")
    return table


def check_probabilities(values: ArrayLike, name: str = "probs", *, sum_to_one: bool = False) -> Array:
    """Convert values to probabilities, (rows,) or (rows, columns); with `sum_to_one`, columns must sum to 1 per row."""
    probs = check_finite(values, name)
    if probs.ndim > 2:
        raise InputError(f"{name} must have shape (rows,) or (rows, classes), got {probs.shape}.")
    invalid = np.argwhere((probs < -1e-6) | (probs > 1 + 1e-6))
    if len(invalid):
        position = ", ".join(str(index) for index in invalid[0])
        raise InputError(f"{name}[{position}] is {probs[tuple(invalid[0])]:g}; probabilities are between 0 and 1.")
    if sum_to_one and probs.ndim == 2:
        row_sums = probs.sum(1)
        invalid_rows = np.flatnonzero(np.abs(row_sums - 1) > SUM_TOLERANCE)
        if len(invalid_rows):
            row = invalid_rows[0]
            raise InputError(f"{name}[{row}] sums to {row_sums[row]:g}; the probabilities of a row must sum to 1.")
    return np.clip(probs, 0, 1)


def check_one_per_row(array: Array, name: str) -> Array:
    """Require one value per row."""
    if array.ndim != 1:
        raise InputError(f"{name} must have one value per row, got shape {array.shape}.")
    return array


def check_same_rows(**arrays: Array) -> None:
    """Require arrays of the same length."""
    (first_name, first_array), *others = arrays.items()
    for name, array in others:
        if len(first_array) != len(array):
            rows = pluralize(len(first_array), "row")
            raise InputError(f"{first_name} has {rows} and {name} has {len(array)}; row counts must match.")


def check_same_shape(**arrays: Array) -> None:
    """Require arrays of the same shape."""
    check_same_rows(**arrays)
    (first_name, first_array), *others = arrays.items()
    for name, array in others:
        if first_array.shape != array.shape:
            raise InputError(
                f"{first_name} has shape {first_array.shape} and {name} has {array.shape}; shapes must match."
            )
