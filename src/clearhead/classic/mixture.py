"""ELMo's scalar mix of layers: gamma * sum_j softmax(s)_j h_j, with s learned jointly with a linear model.

Layers differ in scale, so each is scaled to unit standard deviation first. The relative weights refer to the scaled
layers; the stored scores include the scales, so that they apply to the original layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clearhead.classic.linear import MIN_STD, standardize
from clearhead.classic.solver import ClassWeight, limit_threads
from clearhead.classic.strength import FITTING_STAGE, choose_strength
from clearhead.classic.targets import check_targets, count_outputs
from clearhead.data.labels import Kind, LabelSpace
from clearhead.errors import InputError, MissingExtraError
from clearhead.metrics.checks import Array, ArrayLike
from clearhead.progress import Progress, no_progress

MAX_ITERATIONS = 300
SCORE_PENALTY = 1e-3  # L2 penalty of the scores per row; without it, the score of the best layer would diverge
MAX_SCORE = 1e4
CONSTANT_LAYER_GAP = 100.0  # a layer that is equal for all rows scores this much below the others


@dataclass(frozen=True, kw_only=True)
class ScalarMix:
    """Weights of the layers in their sum, the word embeddings first."""

    scores: tuple[float, ...]  # s
    gamma: float
    relative_weights: tuple[float, ...]  # softmax weights of the scaled layers; they sum to 1

    @property
    def weights(self) -> tuple[float, ...]:
        """gamma * softmax(s): the factor of each layer."""
        return scalar_mix_weights(self.scores, self.gamma)

    @property
    def summary(self) -> str:
        """The relative weights in one line."""
        layer_weights = ", ".join(f"{layer}: {weight:.3f}" for layer, weight in enumerate(self.relative_weights))
        return f"layer weights learned for this task (layer 0: word embeddings): {layer_weights}."


def scalar_mix_weights(scores: Sequence[float], gamma: float) -> tuple[float, ...]:
    """Compute gamma * softmax(s), and check the values, which may come from a model folder."""
    score_array = np.asarray(scores, np.float64)
    if not score_array.size or not (np.abs(score_array) <= MAX_SCORE).all() or not 0 < gamma < MAX_SCORE**2:
        raise InputError("The scores of weighted layers must be finite numbers, and gamma must be above 0.")
    return tuple((gamma * _softmax(score_array)).tolist())


def fit_scalar_mix(
    layers: Sequence[Array],
    targets: ArrayLike,
    space: LabelSpace,
    *,
    strength: float | None = None,
    class_weight: ClassWeight = "none",
    seed: int = 0,
    progress: Progress = no_progress,
) -> ScalarMix:
    """Learn s jointly with a linear model on the weighted sum; `layers` are (rows, width) each."""
    checked_targets = check_targets(targets, space)
    if len({layer.shape for layer in layers}) != 1:
        raise InputError("Layers can be weighted only if all have the same width.")
    stacked = np.stack([np.asarray(layer, np.float64) for layer in layers])  # (layers, rows, width)
    mean = stacked.mean(1, keepdims=True)
    stacked -= mean
    layer_stds = np.sqrt((stacked**2).mean((1, 2)))
    is_constant = layer_stds <= np.maximum(1e-6 * np.abs(mean).max((1, 2)), MIN_STD)  # rounding noise
    layer_stds[is_constant] = np.inf
    stacked /= layer_stds[:, None, None]
    column_stds = np.sqrt((stacked**2).mean((0, 1)))
    stacked /= np.where(column_stds > MIN_STD, column_stds, np.inf)  # the same for all layers
    weights = _row_weights(checked_targets, space.kind, class_weight)
    with limit_threads(stacked[0].size):
        if strength is None:
            layer_mean = stacked.mean(0)
            standardize(layer_mean)
            fit_options = {"kind": space.kind, "outputs": count_outputs(space), "class_weight": class_weight}
            strength = choose_strength(layer_mean, checked_targets, seed=seed, progress=progress, **fit_options)  # type: ignore[arg-type]
        progress(FITTING_STAGE, 0, 1)
        scores = _fit_scores(stacked, checked_targets, weights, space.kind, count_outputs(space), strength)
    if is_constant.all():
        raise InputError("Layers cannot be weighted: every layer is equal for all rows.")
    scores[is_constant], layer_stds[is_constant] = scores[~is_constant].min() - CONSTANT_LAYER_GAP, 1.0
    relative_weights = _softmax(scores)
    gamma = float((relative_weights / layer_stds).sum())
    return ScalarMix(
        scores=tuple((scores - np.log(layer_stds)).tolist()),
        gamma=gamma,
        relative_weights=tuple(relative_weights.tolist()),
    )


def _fit_scores(layers: Array, targets: Array, weights: Array, kind: Kind, outputs: int, strength: float) -> Array:
    """Minimize strength * loss + |W|^2 / 2 over W and s, and return s."""
    try:
        from scipy.optimize import minimize  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("Weighting layers", "train") from error
    n_layers, rows, width = layers.shape
    target_matrix = _target_matrix(targets, kind, outputs)

    def cost(parameters: Array) -> tuple[float, Array]:
        s, bias, flat_weight = np.split(parameters, [n_layers, n_layers + outputs])
        weight = flat_weight.reshape(outputs, width)
        softmax_scores = _softmax(s)
        mixed_layers = np.tensordot(softmax_scores, layers, 1)  # (rows, width)
        loss, logit_gradient = _loss_and_gradient(mixed_layers @ weight.T + bias, target_matrix, kind)
        logit_gradient = strength * logit_gradient * weights[:, None]
        mixed_gradient = logit_gradient @ weight
        softmax_gradient = np.einsum("lrw,rw->l", layers, mixed_gradient)
        objective = strength * float((loss * weights).sum()) + 0.5 * float((weight**2).sum())
        objective += 0.5 * SCORE_PENALTY * rows * strength * float((s**2).sum())
        score_gradient = softmax_scores * (softmax_gradient - softmax_scores @ softmax_gradient)
        score_gradient = score_gradient + SCORE_PENALTY * rows * strength * s
        weight_gradient = logit_gradient.T @ mixed_layers + weight
        return objective, np.concatenate([score_gradient, logit_gradient.sum(0), weight_gradient.ravel()])

    initial = np.zeros(n_layers + outputs + outputs * width)
    solution = minimize(cost, initial, jac=True, method="L-BFGS-B", options={"maxiter": MAX_ITERATIONS})
    return np.asarray(solution.x[:n_layers])


def _loss_and_gradient(logits: Array, targets: Array, kind: Kind) -> tuple[Array, Array]:
    """The loss of each row, and its gradient with respect to the logits."""
    if kind == "number":
        errors = logits - targets
        return 0.5 * (errors**2).sum(1), errors
    if kind == "multilabel":
        losses = np.logaddexp(0, logits) - targets * logits
        return losses.sum(1), 1 / (1 + np.exp(-np.clip(logits, -500, 500))) - targets
    shifted = logits - logits.max(1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(1, keepdims=True))
    return -((shifted - log_sum) * targets).sum(1), np.exp(shifted - log_sum) - targets


def _target_matrix(targets: Array, kind: Kind, outputs: int) -> Array:
    """Targets as a matrix (rows, outputs): one-hot classes, label flags, or standardized numbers."""
    if kind == "number":
        return np.asarray(((targets - targets.mean()) / (targets.std() or 1.0))[:, None])
    return targets.astype(np.float64) if kind == "multilabel" else np.eye(outputs)[targets]


def _row_weights(targets: Array, kind: Kind, class_weight: ClassWeight) -> Array:
    if class_weight == "none" or kind != "classes":
        return np.ones(len(targets))
    counts = np.bincount(targets)
    return np.asarray(len(targets) / (counts[targets] * (counts > 0).sum()))


def _softmax(scores: Array) -> Array:
    exponentials = np.exp(scores - scores.max())
    return np.asarray(exponentials / exponentials.sum())
