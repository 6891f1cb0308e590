"""A linear model: one weight for each output and input. Fitted by scikit-learn, applied in numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.classic.solver import ClassWeight, fit_coefficients, limit_threads
from clearhead.classic.sparse import SparseRows
from clearhead.classic.strength import FITTING, choose_strength
from clearhead.classic.targets import check_targets, count_outputs
from clearhead.data.labels import LabelSpace
from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike
from clearhead.progress import Progress, no_progress

BLOCK = 1 << 20  # products that are in memory at a time: 8 MB
MOST_EXACT = 1 << 26  # numbers that are fitted in float64; more would double gigabytes
LEAST_SPREAD = 1e-12
LARGEST = 1e18  # squares of features must stay numbers


@dataclass(frozen=True, eq=False)
class LinearModel:
    """logits = features x weight + bias."""

    weight: Array  # (outputs, inputs) float32
    bias: Array  # (outputs,) float32
    strength: float | None = None  # what the fit took, C in scikit-learn
    converged: bool = True  # False: the fit stopped before it was done

    @property
    def outputs(self) -> int:
        """How many logits a row has."""
        return int(self.weight.shape[0])

    @property
    def inputs(self) -> int:
        """How many features a row has."""
        return int(self.weight.shape[1])

    def logits(self, features: ArrayLike) -> Array:
        """(rows, outputs) for features of shape (rows, inputs)."""
        given = np.asarray(features)
        if given.ndim != 2 or given.shape[1] != self.inputs or given.dtype.kind not in "biuf":
            raise InputError(
                f"features are {given.dtype.name} of shape {given.shape}; expected numbers of (rows, {self.inputs})."
            )
        # in float64, where the order of a sum, which depends on the number of rows, costs no digit that is kept
        with np.errstate(over="ignore", invalid="ignore"):
            made = given.astype(np.float64) @ self.weight.T.astype(np.float64) + self.bias
            logits: Array = made.astype(np.float32)
        if not np.isfinite(logits).all():
            raise InputError("features hold NaN, infinity or numbers too large for this model.")
        return logits

    def sparse_logits(self, sparse: SparseRows) -> Array:
        """(rows, outputs) for sparse features, a few rows at a time; no row's sum depends on another row."""
        if sparse.width != self.inputs:
            raise InputError(f"features have {sparse.width} columns; expected {self.inputs}.")
        logits = np.tile(self.bias, (len(sparse), 1))
        room = max(BLOCK // self.outputs, 1)
        first = 0
        while first < len(sparse):
            start = sparse.indptr[first]
            last = max(int(np.searchsorted(sparse.indptr, start + room, "right")) - 1, first + 1)
            stop = sparse.indptr[last]
            filled = first + np.flatnonzero(np.diff(sparse.indptr[first : last + 1]))  # reduceat needs a value each
            if len(filled):
                terms = self.weight.take(sparse.indices[start:stop], 1) * sparse.values[start:stop].astype(np.float64)
                sums = np.add.reduceat(terms, sparse.indptr[filled] - start, axis=1)  # (outputs, filled)
                logits[filled] = (sums.T + self.bias).astype(np.float32)
            first = last
        return logits


def fit_linear(
    features: Any,
    targets: ArrayLike,
    space: LabelSpace,
    *,
    strength: float | None = None,
    class_weight: ClassWeight = "none",
    seed: int = 0,
    progress: Progress = no_progress,
) -> LinearModel:
    """Logistic regression for classes and labels, ridge regression for numbers; features dense or scipy sparse.

    `progress` counts fits; while the strength is chosen, of as many as there are at most.
    """
    truth, matrix = check_targets(targets, space), _check_features(features)
    if matrix.shape[0] != len(truth):
        raise InputError(f"features have {matrix.shape[0]} rows and targets {len(truth)}; they must have as many.")
    if strength is not None and not (strength > 0 and math.isfinite(strength)):
        raise InputError(f"strength is {strength}; it must be a number above 0, or None to have it chosen.")
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be 0 or above.")
    if class_weight not in ("none", "auto"):
        raise InputError(f"class_weight is {class_weight!r}; expected none or auto.")
    if class_weight == "auto" and space.kind == "number":
        raise InputError("class_weight='auto' is for classes and labels; numbers have none.")
    known: dict[str, Any] = {"kind": space.kind, "outputs": count_outputs(space), "class_weight": class_weight}
    moments = standardize(matrix) if isinstance(matrix, np.ndarray) else None  # sparse rows are of length 1 already
    with limit_threads(matrix.size if moments is not None else 0):  # products with sparse rows have one thread anyway
        if strength is None:
            strength = choose_strength(matrix, truth, seed=seed, progress=progress, **known)
        progress(FITTING, 0, 1)
        solved = fit_coefficients(matrix, truth, strength=strength, **known)
    weight, bias = solved.weight, solved.bias
    if moments is not None:
        # w (x - m) / s + b = (w / s) x + (b - w m / s): the scaling becomes part of the model
        mean, scale = moments
        weight = weight / scale
        bias = bias - weight @ mean
    return LinearModel(weight.astype(np.float32), bias.astype(np.float32), float(strength), solved.converged)


def fit_probe(
    features: Array,
    targets: ArrayLike,
    space: LabelSpace,
    *,
    tried: int,
    class_weight: ClassWeight = "none",
    seed: int = 0,
) -> LinearModel:
    """A linear model to start a network's head from; the strength is chosen on at most `tried` rows.

    All columns are divided by one number, their size, and not each by its own spread: what hardly varies gets no large
    weight, which would turn a small change of the network below into a large one of its answers.
    """
    truth, matrix = check_targets(targets, space), _check_features(features)
    known: dict[str, Any] = {"kind": space.kind, "outputs": count_outputs(space), "class_weight": class_weight}
    scale = float(np.sqrt(np.square(matrix).mean())) or 1.0
    mean = matrix.mean(0)
    matrix -= mean
    matrix /= scale
    some = np.sort(np.random.default_rng(seed).permutation(len(truth))[:tried])
    with limit_threads(matrix.size):
        strength = choose_strength(matrix[some], truth[some], seed=seed, **known)
        solved = fit_coefficients(matrix, truth, strength=strength, **known)
    weight = solved.weight / scale
    bias = solved.bias - weight @ mean
    return LinearModel(weight.astype(np.float32), bias.astype(np.float32), float(strength), solved.converged)


def _check_features(features: Any) -> Any:
    """Finite numbers of (rows, columns), in float64 unless that takes gigabytes."""
    sparse = hasattr(features, "tocsr")
    matrix = features.tocsr() if sparse else np.asarray(features)
    if matrix.ndim != 2 or not matrix.shape[1] or matrix.dtype.kind not in "biuf":
        raise InputError(f"features are {matrix.dtype.name} of shape {matrix.shape}; expected numbers (rows, columns).")
    stored: Any = matrix.data if sparse else matrix
    if stored.size and not (stored.min() >= -LARGEST and stored.max() <= LARGEST):  # NaN is neither
        raise InputError(f"features hold NaN, infinity or numbers above {LARGEST:g}, which cannot be fitted.")
    return matrix.astype(np.float64 if stored.size <= MOST_EXACT else np.float32)


def standardize(matrix: Array) -> tuple[Array, Array]:
    """Every column to mean 0 and spread 1, in place; the means and spreads come back.

    A column that says nothing gets an infinite spread, and so no weight.
    """
    mean = matrix.mean(0, dtype=np.float64)
    matrix -= mean
    spread = np.sqrt(np.einsum("rc,rc->c", matrix, matrix, dtype=np.float64) / len(matrix))
    least = np.maximum(1e-6 * np.abs(mean), LEAST_SPREAD)  # in float32 there is nothing below this but rounding
    scale = np.where(spread > least, spread, np.inf)
    matrix /= scale
    return mean, scale
