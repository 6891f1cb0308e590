"""What metrics take: class numbers, tables of 0 and 1, finite numbers, probabilities; anything else is refused."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from clearhead.errors import InputError

Array: TypeAlias = np.ndarray[Any, Any]
ArrayLike: TypeAlias = npt.ArrayLike

SLACK = 1e-3  # how far probabilities of a row may be from 1 in sum: half precision rounds that much

LARGEST = 1e100


def check_numbers(values: ArrayLike, name: str) -> Array:
    """An array of numbers with at least one row."""
    try:
        made = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} must be an array of numbers, and its rows differ in length.") from error
    if made.size == 0:
        raise InputError(f"{name} is empty; a metric needs at least one row.")
    if made.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold numbers, and it holds {made.dtype.name} values; give class numbers from 0.")
    if made.ndim == 0:
        raise InputError(f"{name} must be an array, and it is the single value {made}.")
    return made


def check_finite(values: ArrayLike, name: str) -> Array:
    """Numbers without NaN or infinity, as float64."""
    made = check_numbers(values, name).astype(np.float64)
    bad = np.argwhere(~np.isfinite(made))
    if len(bad):
        place = ", ".join(str(index) for index in bad[0])
        raise InputError(f"{name}[{place}] is {made[tuple(bad[0])]}; every value must be a finite number.")
    if np.abs(made).max() > LARGEST:
        raise InputError(f"{name} holds {np.abs(made).max():g}; values beyond {LARGEST:g} cannot be squared safely.")
    return made


def check_reals(values: ArrayLike, name: str) -> Array:
    """One finite number per row."""
    return check_one_per_row(check_finite(values, name), name)


def check_class_ids(values: ArrayLike, name: str, *, n: int | None = None) -> Array:
    """One class number per row, from 0 to n - 1."""
    given = check_one_per_row(check_finite(values, name), name)
    made = given.astype(np.int64)
    bad = np.flatnonzero((made != given) | (given < 0))
    if len(bad):
        raise InputError(f"{name}[{bad[0]}] is {given[bad[0]]:g}; class numbers are whole and start at 0.")
    bad = np.flatnonzero(made >= n) if n is not None else bad
    if len(bad):
        raise InputError(f"{name}[{bad[0]}] is {made[bad[0]]}, and there are {n} classes, numbered from 0.")
    return made


def check_binary(values: ArrayLike, name: str) -> Array:
    """Zeros and ones of any shape, as booleans."""
    made = check_numbers(values, name)
    bad = np.argwhere((made != 0) & (made != 1))
    if len(bad):
        place = ", ".join(str(index) for index in bad[0])
        raise InputError(f"{name}[{place}] is {made[tuple(bad[0])]}; only 0 and 1 can stand here.")
    return made.astype(bool)


def check_label_table(values: ArrayLike, name: str) -> Array:
    """Zeros and ones, one row per text and one column per label."""
    made = check_binary(values, name)
    if made.ndim != 2:
        raise InputError(f"{name} must be (rows, labels) of 0 and 1, and its shape is {made.shape}.")
    return made


def check_probabilities(values: ArrayLike, name: str = "probs", *, whole: bool = False) -> Array:
    """Values from 0 to 1, (rows,) or (rows, columns); `whole` wants each row of columns to add up to 1."""
    made = check_finite(values, name)
    if made.ndim > 2:
        raise InputError(f"{name} must be (rows,) or (rows, classes), and its shape is {made.shape}.")
    bad = np.argwhere((made < -1e-6) | (made > 1 + 1e-6))
    if len(bad):
        place = ", ".join(str(index) for index in bad[0])
        raise InputError(f"{name}[{place}] is {made[tuple(bad[0])]:g}; a probability lies between 0 and 1.")
    if whole and made.ndim == 2:
        total = made.sum(1)
        off = np.flatnonzero(np.abs(total - 1) > SLACK)
        if len(off):
            raise InputError(f"{name}[{off[0]}] adds up to {total[off[0]]:g}; the probabilities of a row must make 1.")
    return np.clip(made, 0, 1)


def check_one_per_row(made: Array, name: str) -> Array:
    """Refuse anything but one value per row."""
    if made.ndim != 1:
        raise InputError(f"{name} must have one value per row, and its shape is {made.shape}.")
    return made


def check_same_rows(**arrays: Array) -> None:
    """Refuse arrays of different length."""
    (first, one), *others = arrays.items()
    for name, other in others:
        if len(one) != len(other):
            raise InputError(f"{first} has {len(one)} rows and {name} has {len(other)}; they must have as many.")


def check_same_shape(**arrays: Array) -> None:
    """Refuse arrays of different shape."""
    check_same_rows(**arrays)
    (first, one), *others = arrays.items()
    for name, other in others:
        if one.shape != other.shape:
            raise InputError(f"{first} is of shape {one.shape} and {name} of {other.shape}; they must be alike.")
