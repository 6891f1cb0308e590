"""Calibration: bins by their definition, temperature by the reference optimiser."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.metrics import (
    accuracy,
    adaptive_calibration_error,
    apply_temperature,
    confidences,
    expected_calibration_error,
    fit_temperature,
    log_loss,
    maximum_calibration_error,
    reliability_table,
)
from tests.metrics.rows import Array, optimize, scored, special, tables


def gaps(sure: Array, right: Array, bins: int) -> list[tuple[float, float]]:
    """The definition, one bin after the other: weight and distance."""
    made = []
    for place in range(bins):
        own = (sure > place / bins) & (sure <= (place + 1) / bins)
        if own.any():
            made.append((float(own.mean()), abs(float(sure[own].mean() - right[own].mean()))))
    return made


@given(scored(), st.integers(1, 20))
def test_errors_follow_the_definition(rows: tuple[Array, Array], bins: int) -> None:
    labels, probs = rows
    expected = gaps(probs.max(1), probs.argmax(1) == labels, bins)
    assert expected_calibration_error(probs, labels, bins) == pytest.approx(sum(w * gap for w, gap in expected))
    assert maximum_calibration_error(probs, labels, bins) == pytest.approx(max(gap for _, gap in expected))
    made = reliability_table(probs, labels, bins)
    assert len(made) == bins
    assert sum(each.rows for each in made) == len(labels)
    assert all(math.isnan(each.accuracy) == (each.rows == 0) for each in made)
    full = [each for each in made if each.rows]
    assert all(each.low - 1e-9 <= each.confidence <= each.high + 1e-9 for each in full)


@given(tables(), st.integers(0, 999))
def test_several_labels_are_decisions_of_their_own(rows: tuple[Array, Array], seed: int) -> None:
    labels = rows[0]
    probs = np.asarray(np.random.default_rng(seed).random(labels.shape))
    flat = expected_calibration_error(probs.ravel(), labels.ravel())
    assert expected_calibration_error(probs, labels) == pytest.approx(flat)
    both = np.stack([1 - probs.ravel(), probs.ravel()], 1)
    assert flat == pytest.approx(expected_calibration_error(both, labels.ravel()))


@given(scored(), st.integers(0, 999))
def test_order_does_not_matter(rows: tuple[Array, Array], seed: int) -> None:
    labels, probs = rows
    mixed = np.random.default_rng(seed).permutation(len(labels))
    for metric in (expected_calibration_error, maximum_calibration_error, adaptive_calibration_error, fit_temperature):
        assert metric(probs, labels) == pytest.approx(metric(probs[mixed], labels[mixed]))


def test_adaptive_bins_hold_equally_many() -> None:
    rng = np.random.default_rng(0)
    probs, labels = rng.random(1000), rng.integers(0, 2, 1000)
    assert {each.rows for each in reliability_table(probs, labels, 10, adaptive=True)} == {100}
    tied = reliability_table(np.full(50, 0.8), np.arange(50) % 5 > 0, 10, adaptive=True)
    assert [(each.rows, each.accuracy) for each in tied] == [(50, 0.8)]
    assert adaptive_calibration_error(np.full(50, 0.8), np.arange(50) % 5 > 0) == pytest.approx(0)


def test_a_calibrated_model_is_seen_and_a_boasting_one_too() -> None:
    rng = np.random.default_rng(0)
    probs = rng.random(20_000)
    labels = (rng.random(20_000) < probs).astype(int)
    assert expected_calibration_error(probs, labels) < 0.02
    assert adaptive_calibration_error(probs, labels) < 0.02
    boasting = np.where(probs > 0.5, 0.99, 0.01)
    assert expected_calibration_error(boasting, labels) == pytest.approx(0.24, abs=0.02)
    assert maximum_calibration_error(boasting, labels) == pytest.approx(0.24, abs=0.02)


def drawn(temperature: float, classes: int, seed: int = 0) -> tuple[Array, Array]:
    """Labels drawn from softmax(logits), and those logits multiplied: the temperature is known."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(20_000, classes)) * 2
    labels = (special.softmax(logits, 1).cumsum(1) < rng.random((20_000, 1))).sum(1)
    return logits * temperature, np.minimum(labels, classes - 1)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5, 8.0])
def test_a_known_temperature_is_found(temperature: float) -> None:
    logits, labels = drawn(temperature, 4)
    found = fit_temperature(logits, labels)
    assert found == pytest.approx(temperature, rel=0.05)
    before, after = apply_temperature(logits, 1), apply_temperature(logits, found)
    assert log_loss(labels, after) <= log_loss(labels, before)
    assert expected_calibration_error(after, labels) < 0.02
    assert accuracy(labels, after.argmax(1)) == accuracy(labels, before.argmax(1))
    if temperature != 1.0:
        assert expected_calibration_error(before, labels) > 0.05


@given(scored(), st.floats(0.5, 4))
def test_temperature_equals_the_reference_optimiser(rows: tuple[Array, Array], stretch: float) -> None:
    labels, probs = rows
    logits = np.log(probs) * stretch

    def loss(inverse: float) -> float:
        return -float(special.log_softmax(logits * inverse, 1)[np.arange(len(labels)), labels].mean())

    found = fit_temperature(logits, labels)
    assert 0.05 <= found <= 20
    theirs = optimize.minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-9})
    assert loss(1 / found) <= theirs.fun + 1e-9


def test_two_ways_to_write_two_classes() -> None:
    logits, labels = drawn(3.0, 2)
    one = logits[:, 1] - logits[:, 0]
    assert fit_temperature(one, labels) == pytest.approx(fit_temperature(logits, labels))
    assert apply_temperature(one, 3.0) == pytest.approx(apply_temperature(logits, 3.0)[:, 1])


def test_several_labels_share_a_temperature() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5000, 4)) * 2
    labels = rng.random(logits.shape) < special.expit(logits)
    found = fit_temperature(logits * 3, labels)
    assert found == pytest.approx(3, rel=0.06)
    assert apply_temperature(logits * 3, 3, multilabel=True) == pytest.approx(special.expit(logits))


def test_what_cannot_tell_stays_in_range() -> None:
    assert fit_temperature([[5.0, 0.0], [0.0, 5.0]], [0, 1]) == pytest.approx(0.05)  # all right: as sure as can be
    assert fit_temperature([[5.0, 0.0], [0.0, 5.0]], [1, 0]) == pytest.approx(20)  # all wrong: as unsure as can be
    assert fit_temperature([[2.0, 2.0], [1.0, 1.0]], [0, 1]) == 1  # no temperature changes anything
    assert fit_temperature([3.0, -3.0], [1, 0]) == pytest.approx(0.05)
    extreme = apply_temperature([[1e6, -1e6], [0.0, 0.0]], 0.05)
    assert extreme.tolist() == [[1, 0], [0.5, 0.5]]
    assert apply_temperature([-1e6, 0.0, 1e6], 1).tolist() == [0, 0.5, 1]


def test_confidence_is_the_largest_probability() -> None:
    assert confidences([0.9, 0.2]).tolist() == [0.9, 0.8]
    assert confidences([[0.1, 0.9], [0.7, 0.3]]).tolist() == [0.9, 0.7]
