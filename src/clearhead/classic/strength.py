"""Selection of the inverse regularization strength by cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.classic.solver import ClassWeight, fit_coefficients
from clearhead.data.labels import Kind
from clearhead.metrics.checks import Array
from clearhead.progress import Progress, no_progress

FITTING_STAGE = "fitting the linear model"
FOLDS = 5
DEFAULT_STRENGTH = 1.0  # the default of scikit-learn, used if there are too few rows to choose
MIN_ROWS = 10
MAX_ROWS = 10_000  # the best strength depends on the features; more rows only slow the search down
ENOUGH_HELD_OUT_ROWS = 2000  # enough to distinguish steps of the grid, so no further folds are fitted
MAX_LABELS = 16  # only the most balanced of many labels are used

# standardized columns are larger than those of TF-IDF, so they need smaller strengths
SPARSE_GRID = (0.1, 1.0, 10.0, 100.0, 1000.0)
DENSE_GRID = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0)


def choose_strength(
    matrix: Any,
    targets: Array,
    *,
    kind: Kind,
    outputs: int,
    class_weight: ClassWeight,
    seed: int,
    progress: Progress = no_progress,
) -> float:
    """Choose the strength with the lowest held-out loss, trying increasing values until the loss stops improving.

    `progress` counts fits; its total is the maximum number of fits.
    """
    rows = np.random.default_rng(seed).permutation(len(targets))[:MAX_ROWS]
    matrix, targets = matrix[rows], targets[rows]
    if kind == "multilabel":
        minority_counts = np.minimum(targets.sum(0), (~targets).sum(0))
        targets = targets[:, np.sort(np.argsort(-minority_counts, kind="stable")[:MAX_LABELS])]
        outputs = targets.shape[1]
    folds = assign_folds(targets, kind)
    used_folds = min(max(round(ENOUGH_HELD_OUT_ROWS * FOLDS / len(rows)), 1), FOLDS)
    is_held_out = (folds >= 0) & (folds < used_folds)
    held_out_targets = targets[is_held_out]
    if len(held_out_targets) < MIN_ROWS or (held_out_targets == held_out_targets[0]).all():
        return DEFAULT_STRENGTH
    best, lowest_loss = DEFAULT_STRENGTH, np.inf
    strengths = DENSE_GRID if isinstance(matrix, np.ndarray) else SPARSE_GRID
    for step, strength in enumerate(strengths):
        losses = np.zeros(targets.shape)
        for fold in range(used_folds):
            progress(FITTING_STAGE, step * used_folds + fold, len(strengths) * used_folds)
            in_fold = folds == fold
            coefficients = fit_coefficients(
                matrix[~in_fold],
                targets[~in_fold],
                kind=kind,
                outputs=outputs,
                strength=strength,
                class_weight=class_weight,
            )
            logits = matrix[in_fold] @ coefficients.weight.T + coefficients.bias
            losses[in_fold] = compute_row_losses(np.asarray(logits), targets[in_fold], kind)
        loss = average_losses(losses[is_held_out], held_out_targets, kind, balanced=class_weight == "auto")
        if not loss < lowest_loss:
            break
        best, lowest_loss = strength, loss
    return best


def assign_folds(targets: Array, kind: Kind) -> Array:
    """Assign each row the fold that holds it out; -1 for the only row of a class, which is never held out.

    Rows of one class are assigned to the folds in turn, so that every training set has a row of each class.
    """
    rows = np.arange(len(targets))
    if kind != "classes":
        return rows % FOLDS
    folds = np.empty(len(targets), np.int64)
    folds[np.argsort(targets, kind="stable")] = rows % FOLDS
    return np.where(np.bincount(targets)[targets] == 1, -1, folds)


def compute_row_losses(logits: Array, targets: Array, kind: Kind) -> Array:
    """Negative log-likelihood by row, or by row and label; the squared error for numbers."""
    if kind == "number":
        return np.asarray((logits[:, 0] - targets) ** 2)
    if kind == "multilabel":
        return np.asarray(np.logaddexp(0, np.where(targets, -logits, logits)))
    largest = logits.max(1)
    # -log softmax(z)[y] = log sum exp(z) - z[y]
    return np.asarray(
        np.log(np.exp(logits - largest[:, None]).sum(1)) + largest - logits[np.arange(len(targets)), targets]
    )


def average_losses(losses: Array, targets: Array, kind: Kind, *, balanced: bool) -> float:
    """Average losses over rows; if balanced, first over the rows of each class."""
    if not balanced or kind == "number":
        return float(losses.mean())
    groups = targets if kind == "classes" else targets + 2 * np.arange(targets.shape[1])
    counts = np.bincount(groups.ravel())
    sums = np.bincount(groups.ravel(), weights=losses.ravel())
    return float((sums[counts > 0] / counts[counts > 0]).mean())
