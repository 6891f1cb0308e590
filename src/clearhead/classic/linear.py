"""Linear models: fitted by scikit-learn, applied in numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.classic.solver import ClassWeight, fit_coefficients, limit_threads
from clearhead.classic.sparse import SparseRows
from clearhead.classic.strength import FITTING_STAGE, choose_strength
from clearhead.classic.targets import check_targets, count_outputs
from clearhead.data.labels import LabelSpace
from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike
from clearhead.progress import Progress, no_progress

MAX_BLOCK_PRODUCTS = 1 << 20  # products in memory at a time (8 MB)
MAX_FLOAT64_SIZE = 1 << 26  # larger matrices are fitted in float32, since float64 would take gigabytes
MIN_STD = 1e-12
MAX_FEATURE = 1e18  # squares of features must be finite


@dataclass(frozen=True, eq=False)
class LinearModel:
    """logits = features x weight + bias."""

    weight: Array  # (outputs, inputs) float32
    bias: Array  # (outputs,) float32
    strength: float | None = None  # inverse regularization strength of the fit (C in scikit-learn)
    converged: bool = True  # False: the fit stopped at the maximum number of iterations

    @property
    def outputs(self) -> int:
        """Number of logits per row."""
        return int(self.weight.shape[0])

    @property
    def inputs(self) -> int:
        """Number of features per row."""
        return int(self.weight.shape[1])

    def logits(self, features: ArrayLike) -> Array:
        """Compute logits (rows, outputs) from features (rows, inputs)."""
        matrix = np.asarray(features)
        if matrix.ndim != 2 or matrix.shape[1] != self.inputs or matrix.dtype.kind not in "biuf":
            raise InputError(
                f"features have dtype {matrix.dtype.name} and shape {matrix.shape}; "
                f"expected numbers of shape (rows, {self.inputs})."
            )
        # in float64, so that the order of a sum, which depends on the number of rows, does not change float32 digits
        with np.errstate(over="ignore", invalid="ignore"):
            exact = matrix.astype(np.float64) @ self.weight.T.astype(np.float64) + self.bias
            logits: Array = exact.astype(np.float32)
        if not np.isfinite(logits).all():
            raise InputError("features contain NaN, infinity or numbers too large for this model.")
        return logits

    def sparse_logits(self, sparse: SparseRows) -> Array:
        """Compute logits (rows, outputs) from sparse features, in blocks of rows; each row is summed independently."""
        if sparse.width != self.inputs:
            raise InputError(f"features have {sparse.width} columns; expected {self.inputs}.")
        logits = np.tile(self.bias, (len(sparse), 1))
        block_size = max(MAX_BLOCK_PRODUCTS // self.outputs, 1)
        first_row = 0
        while first_row < len(sparse):
            start = sparse.indptr[first_row]
            end_row = max(int(np.searchsorted(sparse.indptr, start + block_size, "right")) - 1, first_row + 1)
            end = sparse.indptr[end_row]
            # reduceat needs at least one value per row
            filled_rows = first_row + np.flatnonzero(np.diff(sparse.indptr[first_row : end_row + 1]))
            if len(filled_rows):
                values = sparse.values[start:end].astype(np.float64)
                products = self.weight.take(sparse.indices[start:end], 1) * values
                sums = np.add.reduceat(products, sparse.indptr[filled_rows] - start, axis=1)  # (outputs, filled)
                logits[filled_rows] = (sums.T + self.bias).astype(np.float32)
            first_row = end_row
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
    """Fit logistic regression (classes, labels) or ridge regression (numbers) to dense or scipy-sparse features.

    `progress` counts fits; while the strength is chosen, the total is the maximum number of fits.
    """
    checked_targets, matrix = check_targets(targets, space), _check_features(features)
    if matrix.shape[0] != len(checked_targets):
        raise InputError(
            f"features have {matrix.shape[0]} rows and targets {len(checked_targets)}; row counts must match."
        )
    if strength is not None and not (strength > 0 and math.isfinite(strength)):
        raise InputError(f"strength must be a number above 0, or None for automatic selection, got {strength}.")
    if seed < 0:
        raise InputError(f"seed must be >= 0, got {seed}.")
    if class_weight not in ("none", "auto"):
        raise InputError(f"class_weight must be none or auto, got {class_weight!r}.")
    if class_weight == "auto" and space.kind == "number":
        raise InputError("class_weight='auto' supports only classes and labels, not numbers.")
    fit_options: dict[str, Any] = {"kind": space.kind, "outputs": count_outputs(space), "class_weight": class_weight}
    moments = standardize(matrix) if isinstance(matrix, np.ndarray) else None  # sparse rows have unit length
    with limit_threads(matrix.size if moments is not None else 0):  # sparse products are single-threaded
        if strength is None:
            strength = choose_strength(matrix, checked_targets, seed=seed, progress=progress, **fit_options)
        progress(FITTING_STAGE, 0, 1)
        coefficients = fit_coefficients(matrix, checked_targets, strength=strength, **fit_options)
    weight, bias = coefficients.weight, coefficients.bias
    if moments is not None:
        # w (x - m) / s + b = (w / s) x + (b - w m / s), so the model absorbs the scaling
        mean, scale = moments
        weight = weight / scale
        bias = bias - weight @ mean
    return LinearModel(weight.astype(np.float32), bias.astype(np.float32), float(strength), coefficients.converged)


def fit_probe(
    features: Array,
    targets: ArrayLike,
    space: LabelSpace,
    *,
    selection_rows: int,
    class_weight: ClassWeight = "none",
    seed: int = 0,
) -> LinearModel:
    """Fit a linear model that initializes a network's head, with the strength chosen on at most `selection_rows` rows.

    All columns are divided by one number, their root mean square, instead of each by its standard deviation: columns
    that hardly vary get no large weights, which would amplify small changes of the network below.
    """
    checked_targets, matrix = check_targets(targets, space), _check_features(features)
    fit_options: dict[str, Any] = {"kind": space.kind, "outputs": count_outputs(space), "class_weight": class_weight}
    scale = float(np.sqrt(np.square(matrix).mean())) or 1.0
    mean = matrix.mean(0)
    matrix -= mean
    matrix /= scale
    selected_rows = np.sort(np.random.default_rng(seed).permutation(len(checked_targets))[:selection_rows])
    with limit_threads(matrix.size):
        strength = choose_strength(matrix[selected_rows], checked_targets[selected_rows], seed=seed, **fit_options)
        coefficients = fit_coefficients(matrix, checked_targets, strength=strength, **fit_options)
    weight = coefficients.weight / scale
    bias = coefficients.bias - weight @ mean
    return LinearModel(weight.astype(np.float32), bias.astype(np.float32), float(strength), coefficients.converged)


def _check_features(features: Any) -> Any:
    """Convert features to finite numbers (rows, columns), in float64 unless that takes gigabytes."""
    is_sparse = hasattr(features, "tocsr")
    matrix = features.tocsr() if is_sparse else np.asarray(features)
    if matrix.ndim != 2 or not matrix.shape[1] or matrix.dtype.kind not in "biuf":
        raise InputError(
            f"features have dtype {matrix.dtype.name} and shape {matrix.shape}; "
            "expected numbers of shape (rows, columns)."
        )
    stored_values: Any = matrix.data if is_sparse else matrix
    # both comparisons are false for NaN
    if stored_values.size and not (stored_values.min() >= -MAX_FEATURE and stored_values.max() <= MAX_FEATURE):
        raise InputError(f"features contain NaN, infinity or numbers above {MAX_FEATURE:g}, which cannot be fitted.")
    return matrix.astype(np.float64 if stored_values.size <= MAX_FLOAT64_SIZE else np.float32)


def standardize(matrix: Array) -> tuple[Array, Array]:
    """Scale every column to mean 0 and standard deviation 1, in place, and return the means and scales.

    A constant column gets an infinite scale, and thus no weight.
    """
    mean = matrix.mean(0, dtype=np.float64)
    matrix -= mean
    std = np.sqrt(np.einsum("rc,rc->c", matrix, matrix, dtype=np.float64) / len(matrix))
    min_std = np.maximum(1e-6 * np.abs(mean), MIN_STD)  # anything below is rounding noise in float32
    scale = np.where(std > min_std, std, np.inf)
    matrix /= scale
    return mean, scale
