"""How far weights may grow: chosen by what rows say that the fit did not see."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.classic.solver import ClassWeight, fit_coefficients
from clearhead.data.labels import Kind
from clearhead.metrics.checks import Array
from clearhead.progress import Progress, no_progress

FITTING = "fitting the linear model"
FOLDS = 5
USUAL = 1.0  # scikit-learn's default, where there are too few rows to ask
LEAST_ROWS = 10
MOST_ROWS = 10_000  # the best strength is a property of the features; more rows only make it slower to find
ENOUGH_HELD = 2000  # with so many held-out rows a factor of ten shows, and no further fold is fitted
MOST_LABELS = 16  # of several labels, the most varied speak for all

# one step is a factor of ten; standardised columns are larger than those of TF-IDF, so they need less
SPARSE = (0.1, 1.0, 10.0, 100.0, 1000.0)
DENSE = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0)


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
    """The strength with the smallest loss on held-out rows, from small to large until it no longer gets better.

    `progress` counts fits, of as many as there are at most.
    """
    rows = np.random.default_rng(seed).permutation(len(targets))[:MOST_ROWS]
    matrix, targets = matrix[rows], targets[rows]
    if kind == "multilabel":
        varied = np.minimum(targets.sum(0), (~targets).sum(0))
        targets = targets[:, np.sort(np.argsort(-varied, kind="stable")[:MOST_LABELS])]
        outputs = targets.shape[1]
    folds = assign_folds(targets, kind)
    used = min(max(round(ENOUGH_HELD * FOLDS / len(rows)), 1), FOLDS)
    asked = (folds >= 0) & (folds < used)
    held = targets[asked]
    if len(held) < LEAST_ROWS or (held == held[0]).all():
        return USUAL
    best, least = USUAL, np.inf
    strengths = DENSE if isinstance(matrix, np.ndarray) else SPARSE
    for place, strength in enumerate(strengths):
        losses = np.zeros(targets.shape)
        for fold in range(used):
            progress(FITTING, place * used + fold, len(strengths) * used)
            out = folds == fold
            solved = fit_coefficients(
                matrix[~out], targets[~out], kind=kind, outputs=outputs, strength=strength, class_weight=class_weight
            )
            logits = matrix[out] @ solved.weight.T + solved.bias
            losses[out] = row_losses(np.asarray(logits), targets[out], kind)
        loss = mean_loss(losses[asked], held, kind, balanced=class_weight == "auto")
        if not loss < least:
            break
        best, least = strength, loss
    return best


def assign_folds(targets: Array, kind: Kind) -> Array:
    """(rows,) the fold that holds each row out; -1 for the only row of a class, which is never held out.

    Rows of one class get folds in turn, so that one row of each class is always left to learn from.
    """
    rows = np.arange(len(targets))
    if kind != "classes":
        return rows % FOLDS
    folds = np.empty(len(targets), np.int64)
    folds[np.argsort(targets, kind="stable")] = rows % FOLDS
    return np.where(np.bincount(targets)[targets] == 1, -1, folds)


def row_losses(logits: Array, targets: Array, kind: Kind) -> Array:
    """-log of the probability of the truth, by row or by row and label; for numbers the squared error."""
    if kind == "number":
        return np.asarray((logits[:, 0] - targets) ** 2)
    if kind == "multilabel":
        return np.asarray(np.logaddexp(0, np.where(targets, -logits, logits)))
    top = logits.max(1)
    # -log softmax(z)[y] = log sum exp(z) - z[y]
    return np.asarray(np.log(np.exp(logits - top[:, None]).sum(1)) + top - logits[np.arange(len(targets)), targets])


def mean_loss(losses: Array, targets: Array, kind: Kind, *, balanced: bool) -> float:
    """Over rows, or first over the rows of each class where classes are to count alike."""
    if not balanced or kind == "number":
        return float(losses.mean())
    groups = targets if kind == "classes" else targets + 2 * np.arange(targets.shape[1])
    counts = np.bincount(groups.ravel())
    sums = np.bincount(groups.ravel(), weights=losses.ravel())
    return float((sums[counts > 0] / counts[counts > 0]).mean())
