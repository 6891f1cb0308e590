"""Calibration: bins follow their definition, temperatures equal those of a reference optimizer."""

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
from tests.metrics.rows import Array, label_tables, labels_and_probs, optimize, special


def compute_gaps_plainly(confidence: Array, is_correct: Array, bins: int) -> list[tuple[float, float]]:
    """Weight and gap of each filled bin, by the definition."""
    weights_and_gaps = []
    for bin_index in range(bins):
        in_bin = (confidence > bin_index / bins) & (confidence <= (bin_index + 1) / bins)
        if in_bin.any():
            weights_and_gaps.append(
                (float(in_bin.mean()), abs(float(confidence[in_bin].mean() - is_correct[in_bin].mean())))
            )
    return weights_and_gaps


@given(labels_and_probs(), st.integers(1, 20))
def test_errors_follow_the_definition(rows: tuple[Array, Array], bins: int) -> None:
    labels, probs = rows
    expected = compute_gaps_plainly(probs.max(1), probs.argmax(1) == labels, bins)
    assert expected_calibration_error(probs, labels, bins) == pytest.approx(
        sum(weight * gap for weight, gap in expected)
    )
    assert maximum_calibration_error(probs, labels, bins) == pytest.approx(max(gap for _, gap in expected))
    table = reliability_table(probs, labels, bins)
    assert len(table) == bins
    assert sum(bin_row.rows for bin_row in table) == len(labels)
    assert all(math.isnan(bin_row.accuracy) == (bin_row.rows == 0) for bin_row in table)
    filled_bins = [bin_row for bin_row in table if bin_row.rows]
    assert all(bin_row.low - 1e-9 <= bin_row.confidence <= bin_row.high + 1e-9 for bin_row in filled_bins)


@given(label_tables(), st.integers(0, 999))
def test_several_labels_are_decisions_of_their_own(rows: tuple[Array, Array], seed: int) -> None:
    labels = rows[0]
    probs = np.asarray(np.random.default_rng(seed).random(labels.shape))
    flat = expected_calibration_error(probs.ravel(), labels.ravel())
    assert expected_calibration_error(probs, labels) == pytest.approx(flat)
    two_class_probs = np.stack([1 - probs.ravel(), probs.ravel()], 1)
    assert flat == pytest.approx(expected_calibration_error(two_class_probs, labels.ravel()))


@given(labels_and_probs(), st.integers(0, 999))
def test_order_does_not_matter(rows: tuple[Array, Array], seed: int) -> None:
    labels, probs = rows
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    for metric in (expected_calibration_error, maximum_calibration_error, adaptive_calibration_error, fit_temperature):
        assert metric(probs, labels) == pytest.approx(metric(probs[shuffled], labels[shuffled]))


def test_adaptive_bins_hold_equally_many() -> None:
    rng = np.random.default_rng(0)
    probs, labels = rng.random(1000), rng.integers(0, 2, 1000)
    assert {bin_row.rows for bin_row in reliability_table(probs, labels, 10, adaptive=True)} == {100}
    tied = reliability_table(np.full(50, 0.8), np.arange(50) % 5 > 0, 10, adaptive=True)
    assert [(bin_row.rows, bin_row.accuracy) for bin_row in tied] == [(50, 0.8)]
    assert adaptive_calibration_error(np.full(50, 0.8), np.arange(50) % 5 > 0) == pytest.approx(0)


def test_a_calibrated_model_is_seen_and_a_boasting_one_too() -> None:
    rng = np.random.default_rng(0)
    probs = rng.random(20_000)
    labels = (rng.random(20_000) < probs).astype(int)
    assert expected_calibration_error(probs, labels) < 0.02
    assert adaptive_calibration_error(probs, labels) < 0.02
    overconfident = np.where(probs > 0.5, 0.99, 0.01)
    assert expected_calibration_error(overconfident, labels) == pytest.approx(0.24, abs=0.02)
    assert maximum_calibration_error(overconfident, labels) == pytest.approx(0.24, abs=0.02)


def draw_logits_and_labels(temperature: float, classes: int, seed: int = 0) -> tuple[Array, Array]:
    """Logits scaled by a known temperature, and labels drawn from the softmax of the unscaled logits."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(20_000, classes)) * 2
    labels = (special.softmax(logits, 1).cumsum(1) < rng.random((20_000, 1))).sum(1)
    return logits * temperature, np.minimum(labels, classes - 1)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5, 8.0])
def test_a_known_temperature_is_found(temperature: float) -> None:
    logits, labels = draw_logits_and_labels(temperature, 4)
    fitted = fit_temperature(logits, labels)
    assert fitted == pytest.approx(temperature, rel=0.05)
    before, after = apply_temperature(logits, 1), apply_temperature(logits, fitted)
    assert log_loss(labels, after) <= log_loss(labels, before)
    assert expected_calibration_error(after, labels) < 0.02
    assert accuracy(labels, after.argmax(1)) == accuracy(labels, before.argmax(1))
    if temperature != 1.0:
        assert expected_calibration_error(before, labels) > 0.05


@given(labels_and_probs(), st.floats(0.5, 4))
def test_temperature_equals_the_reference_optimizer(rows: tuple[Array, Array], scale: float) -> None:
    labels, probs = rows
    logits = np.log(probs) * scale

    def loss(inverse: float) -> float:
        return -float(special.log_softmax(logits * inverse, 1)[np.arange(len(labels)), labels].mean())

    fitted = fit_temperature(logits, labels)
    assert 0.05 <= fitted <= 20
    expected = optimize.minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-9})
    assert loss(1 / fitted) <= expected.fun + 1e-9


def test_two_ways_to_write_two_classes() -> None:
    logits, labels = draw_logits_and_labels(3.0, 2)
    logit_differences = logits[:, 1] - logits[:, 0]
    assert fit_temperature(logit_differences, labels) == pytest.approx(fit_temperature(logits, labels))
    assert apply_temperature(logit_differences, 3.0) == pytest.approx(apply_temperature(logits, 3.0)[:, 1])


def test_several_labels_share_a_temperature() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5000, 4)) * 2
    labels = rng.random(logits.shape) < special.expit(logits)
    fitted = fit_temperature(logits * 3, labels)
    assert fitted == pytest.approx(3, rel=0.06)
    assert apply_temperature(logits * 3, 3, multilabel=True) == pytest.approx(special.expit(logits))


def test_what_cannot_tell_stays_in_range() -> None:
    assert fit_temperature([[5.0, 0.0], [0.0, 5.0]], [0, 1]) == pytest.approx(0.05)  # all correct: the most confident
    assert fit_temperature([[5.0, 0.0], [0.0, 5.0]], [1, 0]) == pytest.approx(20)  # all wrong: the least confident
    assert fit_temperature([[2.0, 2.0], [1.0, 1.0]], [0, 1]) == 1  # temperature has no effect
    assert fit_temperature([3.0, -3.0], [1, 0]) == pytest.approx(0.05)
    extreme = apply_temperature([[1e6, -1e6], [0.0, 0.0]], 0.05)
    assert extreme.tolist() == [[1, 0], [0.5, 0.5]]
    assert apply_temperature([-1e6, 0.0, 1e6], 1).tolist() == [0, 0.5, 1]


def test_confidence_is_the_largest_probability() -> None:
    assert confidences([0.9, 0.2]).tolist() == [0.9, 0.8]
    assert confidences([[0.1, 0.9], [0.7, 0.3]]).tolist() == [0.9, 0.7]
