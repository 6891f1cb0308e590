"""Scalar mix: the layer that determines the label gets nearly all the weight, whatever its scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clearhead.classic import fit_linear, fit_scalar_mix, scalar_mix_weights
from clearhead.classic.mixture import _loss_and_gradient
from clearhead.data.labels import LabelSpace
from clearhead.errors import InputError
from clearhead.model.layers import choose_layer

ROWS, WIDTH, LAYERS = 300, 12, 4
CLASSES = LabelSpace(names=("a", "b", "c"), kind="classes")
KINDS = {
    "classes": CLASSES,
    "multilabel": LabelSpace(names=("x", "y"), kind="multilabel"),
    "number": LabelSpace(kind="number"),
}


def make_layers(kind: str, informative: int, seed: int = 0) -> tuple[list[Any], Any]:
    """Noise layers of very different scale, one of which determines the targets."""
    rng = np.random.default_rng(seed)
    layers = [rng.normal(3.0, 10.0**exponent, (ROWS, WIDTH)).astype(np.float32) for exponent in range(-1, LAYERS - 1)]
    signal = (layers[informative] - layers[informative].mean(0)) / layers[informative].std()
    if kind == "number":
        return layers, 500 + 100 * (signal @ rng.normal(size=WIDTH))
    scores = signal @ rng.normal(size=(WIDTH, 3 if kind == "classes" else 2))
    return layers, scores.argmax(1) if kind == "classes" else scores > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("informative", range(LAYERS))
def test_the_layer_that_knows_gets_the_weight(kind: str, informative: int) -> None:
    layers, targets = make_layers(kind, informative)
    mixture = fit_scalar_mix(layers, targets, KINDS[kind])
    assert sum(mixture.relative_weights) == pytest.approx(1)
    assert mixture.relative_weights[informative] > 0.9, mixture.summary
    assert f"{informative}: {mixture.relative_weights[informative]:.3f}" in mixture.summary
    # gamma * softmax(s) applies to the original layers, relative_weights to the scaled ones
    spreads = np.array([layer.std(0).mean() for layer in layers])
    assert np.array(mixture.weights) * spreads == pytest.approx(np.array(mixture.relative_weights), rel=0.2)
    mixed_layers = choose_layer(layers, mixture.weights)
    logits = fit_linear(mixed_layers, targets, KINDS[kind]).logits(mixed_layers)
    if kind == "classes":
        assert (logits.argmax(1) == targets).mean() > 0.95


def test_layers_that_all_say_nothing_share_evenly() -> None:
    rng = np.random.default_rng(1)
    layers = [rng.normal(size=(ROWS, WIDTH)) for _ in range(3)]
    relative_weights = fit_scalar_mix(layers, rng.integers(3, size=ROWS), CLASSES).relative_weights
    assert max(relative_weights) < 0.4


def test_a_layer_that_is_the_same_for_all_rows_gets_nothing() -> None:
    layers, targets = make_layers("classes", 1)
    mixture = fit_scalar_mix([*layers, np.full((ROWS, WIDTH), 7.0, np.float32)], targets, CLASSES)
    assert mixture.relative_weights[-1] < 1e-30
    assert mixture.relative_weights[1] > 0.9
    with pytest.raises(InputError, match="every layer is equal for all rows"):
        fit_scalar_mix([np.ones((ROWS, 2))] * 2, targets, CLASSES)


def test_derivatives_are_right() -> None:
    rng = np.random.default_rng(2)
    for kind, targets in (
        ("number", rng.normal(size=(5, 1))),
        ("multilabel", rng.integers(2, size=(5, 3)) * 1.0),
        ("classes", np.eye(3)[rng.integers(3, size=5)]),
    ):
        logits = rng.normal(size=targets.shape)
        _, gradient = _loss_and_gradient(logits, targets, kind)  # type: ignore[arg-type]
        for cell in np.ndindex(*targets.shape):
            step = np.zeros_like(logits)
            step[cell] = 1e-5
            above, below = (
                _loss_and_gradient(shifted_logits, targets, kind)[0].sum()  # type: ignore[arg-type]
                for shifted_logits in (logits + step, logits - step)
            )
            slope = (above - below) / 2e-5
            assert slope == pytest.approx(gradient[cell], abs=1e-6)


def test_rare_classes_can_count_alike() -> None:
    layers, targets = make_layers("classes", 2)
    mixture = fit_scalar_mix(layers, targets, CLASSES, class_weight="auto", strength=1.0)
    assert mixture.relative_weights[2] > 0.85


def test_what_cannot_be_weighed_is_said() -> None:
    with pytest.raises(InputError, match="the same width"):
        fit_scalar_mix([np.zeros((4, 2)), np.zeros((4, 3))], [0, 1, 0, 1], CLASSES)
    for scores, gamma in (([], 1.0), ([float("nan")], 1.0), ([1e9], 1.0), ([0.0], -1.0), ([0.0], float("nan"))):
        with pytest.raises(InputError, match="weighted layers"):
            scalar_mix_weights(scores, gamma)
    with pytest.raises(InputError, match="Got weights for 2 layers, but the model has 1"):
        choose_layer([np.zeros((1, 2))], (0.5, 0.5))
