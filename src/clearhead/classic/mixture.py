"""ELMo's sum of all layers: gamma * sum_j softmax(s)_j h_j, with s learned for a task beside a linear model.

Layers differ in size by far, so each is brought to one spread before it is weighed; the shares that are shown are of
these, and the scores that are kept take the spreads back, so that they apply to the layers as they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clearhead.classic.linear import LEAST_SPREAD, standardize
from clearhead.classic.solver import ClassWeight, limit_threads
from clearhead.classic.strength import FITTING, choose_strength
from clearhead.classic.targets import check_targets, count_outputs
from clearhead.data.labels import Kind, LabelSpace
from clearhead.errors import InputError, MissingExtraError
from clearhead.metrics.checks import Array, ArrayLike
from clearhead.progress import Progress, no_progress

STEPS = 300
CALM = 1e-3  # how much scores are held back, a row: without it the best layer's would grow for ever
MOST_SCORE = 1e4
SILENT = 100.0  # so far below the others is the score of a layer that is the same for all rows


@dataclass(frozen=True, kw_only=True)
class ScalarMix:
    """How much of each layer there is in the sum, the word vectors first."""

    scores: tuple[float, ...]  # s
    gamma: float
    shares: tuple[float, ...]  # of layers of one spread; they sum to 1

    @property
    def weights(self) -> tuple[float, ...]:
        """gamma * softmax(s): what each layer is multiplied by."""
        return scalar_mix_weights(self.scores, self.gamma)

    @property
    def summary(self) -> str:
        """The shares in one line."""
        parts = ", ".join(f"{layer}: {share:.3f}" for layer, share in enumerate(self.shares))
        return f"layers weighted for this task (0 is the word vectors): {parts}."


def scalar_mix_weights(scores: Sequence[float], gamma: float) -> tuple[float, ...]:
    """gamma * softmax(s), checked, as a folder may say anything."""
    given = np.asarray(scores, np.float64)
    if not given.size or not (np.abs(given) <= MOST_SCORE).all() or not 0 < gamma < MOST_SCORE**2:
        raise InputError("the scores of weighted layers must be numbers, and gamma one above 0.")
    return tuple((gamma * _softmax(given)).tolist())


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
    """Learn s together with a linear model on the sum; `layers` are (rows, width) each."""
    truth = check_targets(targets, space)
    if len({layer.shape for layer in layers}) != 1:
        raise InputError("layers can be weighted only where all are of one width.")
    stacked = np.stack([np.asarray(layer, np.float64) for layer in layers])  # (layers, rows, width)
    mean = stacked.mean(1, keepdims=True)
    stacked -= mean
    spreads = np.sqrt((stacked**2).mean((1, 2)))
    silent = spreads <= np.maximum(1e-6 * np.abs(mean).max((1, 2)), LEAST_SPREAD)  # nothing below this but rounding
    spreads[silent] = np.inf
    stacked /= spreads[:, None, None]
    columns = np.sqrt((stacked**2).mean((0, 1)))
    stacked /= np.where(columns > LEAST_SPREAD, columns, np.inf)  # one scale for all layers: the linear model has it
    weights = _row_weights(truth, space.kind, class_weight)
    with limit_threads(stacked[0].size):
        if strength is None:
            even = stacked.mean(0)
            standardize(even)
            known = {"kind": space.kind, "outputs": count_outputs(space), "class_weight": class_weight}
            strength = choose_strength(even, truth, seed=seed, progress=progress, **known)  # type: ignore[arg-type]
        progress(FITTING, 0, 1)
        scores = _fit_scores(stacked, truth, weights, space.kind, count_outputs(space), strength)
    if silent.all():
        raise InputError("no layer tells these rows apart, so that there is nothing to weigh.")
    scores[silent], spreads[silent] = scores[~silent].min() - SILENT, 1.0
    shares = _softmax(scores)
    gamma = float((shares / spreads).sum())
    return ScalarMix(scores=tuple((scores - np.log(spreads)).tolist()), gamma=gamma, shares=tuple(shares.tolist()))


def _fit_scores(layers: Array, truth: Array, weights: Array, kind: Kind, outputs: int, strength: float) -> Array:
    """The s of the least strength * loss + |W|^2 / 2, W and s found together."""
    try:
        from scipy.optimize import minimize  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("Weighing layers", "train") from error
    count, rows, width = layers.shape
    goals = _target_matrix(truth, kind, outputs)

    def cost(point: Array) -> tuple[float, Array]:
        s, bias, rest = np.split(point, [count, count + outputs])
        weight = rest.reshape(outputs, width)
        shares = _softmax(s)
        mixed = np.tensordot(shares, layers, 1)  # (rows, width)
        loss, pull = _loss_and_gradient(mixed @ weight.T + bias, goals, kind)  # pull: d loss / d logits
        pull = strength * pull * weights[:, None]
        back = pull @ weight
        share_pull = np.einsum("lrw,rw->l", layers, back)
        total = strength * float((loss * weights).sum()) + 0.5 * float((weight**2).sum())
        total += 0.5 * CALM * rows * strength * float((s**2).sum())
        s_pull = shares * (share_pull - shares @ share_pull) + CALM * rows * strength * s
        return total, np.concatenate([s_pull, pull.sum(0), (pull.T @ mixed + weight).ravel()])

    begin = np.zeros(count + outputs + outputs * width)
    found = minimize(cost, begin, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return np.asarray(found.x[:count])


def _loss_and_gradient(logits: Array, goals: Array, kind: Kind) -> tuple[Array, Array]:
    """The loss of each row, and its derivative by the logits."""
    if kind == "number":
        off = logits - goals
        return 0.5 * (off**2).sum(1), off
    if kind == "multilabel":
        made = np.logaddexp(0, logits) - goals * logits
        return made.sum(1), 1 / (1 + np.exp(-np.clip(logits, -500, 500))) - goals
    top = logits - logits.max(1, keepdims=True)
    total = np.log(np.exp(top).sum(1, keepdims=True))
    return -((top - total) * goals).sum(1), np.exp(top - total) - goals


def _target_matrix(truth: Array, kind: Kind, outputs: int) -> Array:
    """(rows, outputs): what the logits should say; numbers in units of their spread."""
    if kind == "number":
        return np.asarray(((truth - truth.mean()) / (truth.std() or 1.0))[:, None])
    return truth.astype(np.float64) if kind == "multilabel" else np.eye(outputs)[truth]


def _row_weights(truth: Array, kind: Kind, class_weight: ClassWeight) -> Array:
    if class_weight == "none" or kind != "classes":
        return np.ones(len(truth))
    counts = np.bincount(truth)
    return np.asarray(len(truth) / (counts[truth] * (counts > 0).sum()))


def _softmax(scores: Array) -> Array:
    made = np.exp(scores - scores.max())
    return np.asarray(made / made.sum())
