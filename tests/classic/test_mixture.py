"""Weighted layers: the one that carries the label gets nearly all the weight, whatever its size."""

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


def planted(kind: str, right: int, seed: int = 0) -> tuple[list[Any], Any]:
    """Layers of noise of very different size, and one that says the label."""
    draw = np.random.default_rng(seed)
    layers = [draw.normal(3.0, 10.0**place, (ROWS, WIDTH)).astype(np.float32) for place in range(-1, LAYERS - 1)]
    told = (layers[right] - layers[right].mean(0)) / layers[right].std()
    if kind == "number":
        return layers, 500 + 100 * (told @ draw.normal(size=WIDTH))
    scores = told @ draw.normal(size=(WIDTH, 3 if kind == "classes" else 2))
    return layers, scores.argmax(1) if kind == "classes" else scores > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("right", range(LAYERS))
def test_the_layer_that_knows_gets_the_weight(kind: str, right: int) -> None:
    layers, targets = planted(kind, right)
    made = fit_scalar_mix(layers, targets, KINDS[kind])
    assert sum(made.shares) == pytest.approx(1)
    assert made.shares[right] > 0.9, made.summary
    assert f"{right}: {made.shares[right]:.3f}" in made.summary
    # gamma * softmax(s) of the layers as they come is the shares of layers of one spread
    spreads = np.array([layer.std(0).mean() for layer in layers])
    assert np.array(made.weights) * spreads == pytest.approx(np.array(made.shares), rel=0.2)
    mixed = choose_layer(layers, made.weights)
    fitted = fit_linear(mixed, targets, KINDS[kind]).logits(mixed)
    if kind == "classes":
        assert (fitted.argmax(1) == targets).mean() > 0.95


def test_layers_that_all_say_nothing_share_evenly() -> None:
    draw = np.random.default_rng(1)
    layers = [draw.normal(size=(ROWS, WIDTH)) for _ in range(3)]
    shares = fit_scalar_mix(layers, draw.integers(3, size=ROWS), CLASSES).shares
    assert max(shares) < 0.4


def test_a_layer_that_is_the_same_for_all_rows_gets_nothing() -> None:
    layers, targets = planted("classes", 1)
    made = fit_scalar_mix([*layers, np.full((ROWS, WIDTH), 7.0, np.float32)], targets, CLASSES)
    assert made.shares[-1] < 1e-30
    assert made.shares[1] > 0.9
    with pytest.raises(InputError, match="no layer tells these rows apart"):
        fit_scalar_mix([np.ones((ROWS, 2))] * 2, targets, CLASSES)


def test_derivatives_are_right() -> None:
    draw = np.random.default_rng(2)
    for kind, goals in (
        ("number", draw.normal(size=(5, 1))),
        ("multilabel", draw.integers(2, size=(5, 3)) * 1.0),
        ("classes", np.eye(3)[draw.integers(3, size=5)]),
    ):
        logits = draw.normal(size=goals.shape)
        _, gradient = _loss_and_gradient(logits, goals, kind)  # type: ignore[arg-type]
        for cell in np.ndindex(*goals.shape):
            step = np.zeros_like(logits)
            step[cell] = 1e-5
            above, below = (_loss_and_gradient(at, goals, kind)[0].sum() for at in (logits + step, logits - step))  # type: ignore[arg-type]
            slope = (above - below) / 2e-5
            assert slope == pytest.approx(gradient[cell], abs=1e-6)


def test_rare_classes_can_count_alike() -> None:
    layers, targets = planted("classes", 2)
    made = fit_scalar_mix(layers, targets, CLASSES, class_weight="auto", strength=1.0)
    assert made.shares[2] > 0.85


def test_what_cannot_be_weighed_is_said() -> None:
    with pytest.raises(InputError, match="one width"):
        fit_scalar_mix([np.zeros((4, 2)), np.zeros((4, 3))], [0, 1, 0, 1], CLASSES)
    for scores, gamma in (([], 1.0), ([float("nan")], 1.0), ([1e9], 1.0), ([0.0], -1.0), ([0.0], float("nan"))):
        with pytest.raises(InputError, match="weighted layers"):
            scalar_mix_weights(scores, gamma)
    with pytest.raises(InputError, match="Got weights for 2 layers, but the model has 1"):
        choose_layer([np.zeros((1, 2))], (0.5, 0.5))
