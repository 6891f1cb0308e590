"""Thresholds: no other is better, ties are resolved as documented, curves follow their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.metrics import (
    accuracy,
    balanced_accuracy,
    best_threshold,
    best_thresholds,
    coverage_curve,
    f1,
    matthews_corrcoef,
    threshold_for,
    wilson_interval,
)
from tests.metrics.rows import Array

METRICS: dict[str, Any] = {
    "f1": lambda labels, predictions: f1(labels, predictions, average="binary"),
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "matthews": matthews_corrcoef,
}


@st.composite
def probs_and_labels(draw: st.DrawFn) -> tuple[Array, Array]:
    """Probabilities with many ties, and 0 or 1."""
    n_rows = draw(st.integers(1, 30))
    probabilities = st.one_of(st.integers(0, 10).map(lambda tenth: tenth / 10), st.floats(0, 1))
    probs = draw(st.lists(probabilities, min_size=n_rows, max_size=n_rows))
    return np.array(probs), np.array(draw(st.lists(st.integers(0, 1), min_size=n_rows, max_size=n_rows)))


@given(probs_and_labels(), st.sampled_from(sorted(METRICS)))
def test_no_other_threshold_is_better(rows: tuple[Array, Array], name: str) -> None:
    probs, labels = rows
    best = best_threshold(probs, labels, name)
    metric = METRICS[name]
    assert 0 <= best.threshold <= 1
    assert metric(labels, probs >= best.threshold) == pytest.approx(best.value)
    candidates = [0.0, 0.5, 1.0, *probs, *np.nextafter(probs, 2).clip(0, 1)]
    assert best.value >= max(metric(labels, probs >= candidate) for candidate in candidates) - 1e-9
    if metric(labels, probs >= 0.5) >= best.value - 1e-12:
        assert best.threshold == 0.5  # kept unless another is better


def test_ties_go_to_the_nearest_to_a_half() -> None:
    assert best_threshold([0.1, 0.2, 0.9], [0, 1, 1]).threshold == pytest.approx(0.15)
    assert best_threshold([0.9, 0.8, 0.6], [1, 0, 0]).threshold == pytest.approx(0.85)
    # predicting all at 0.05 and only the two above 0.3 are equally good in accuracy: 2 of 4; 0.5 is no better
    assert best_threshold([0.2, 0.4, 0.6, 0.8], [1, 0, 1, 0], "accuracy").threshold == 0.5
    # 0.3 and 0.7 are equally good and equally close to 0.5: the lower one wins
    assert best_threshold([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1], "accuracy").threshold == pytest.approx(0.3)


def test_a_label_without_rows_keeps_a_half() -> None:
    probs = np.array([[0.9, 0.3], [0.2, 0.4], [0.1, 0.1]])
    thresholds = best_thresholds(probs, [[1, 0], [1, 0], [0, 0]])
    assert [threshold.threshold for threshold in thresholds] == pytest.approx([0.15, 0.5])
    assert [threshold.value for threshold in thresholds] == [1, 0]


def test_adjacent_floats_are_separated() -> None:
    low = 0.3
    high = float(np.nextafter(low, 1))
    best = best_threshold([low, high], [0, 1])
    assert best.value == 1
    assert low < best.threshold <= high
    assert best_threshold([0.0, 1.0], [1, 0], "accuracy").value == 0.5  # a probability of 1 always passes


@given(probs_and_labels())
def test_the_curve_follows_its_definition(rows: tuple[Array, Array]) -> None:
    confidence, is_correct = rows
    curve = coverage_curve(confidence, is_correct)
    assert curve.threshold.tolist() == sorted(set(confidence.tolist()), reverse=True)
    for threshold, coverage, accuracy_there in zip(curve.threshold, curve.coverage, curve.accuracy, strict=True):
        is_answered = confidence >= threshold
        assert coverage == pytest.approx(is_answered.mean())
        assert accuracy_there == pytest.approx(is_correct[is_answered].mean())
    assert curve.area == pytest.approx(
        np.mean([1 - is_correct[confidence >= row_confidence].mean() for row_confidence in confidence])
    )
    reversed_curve = coverage_curve(confidence[::-1], is_correct[::-1])
    assert reversed_curve.area == pytest.approx(curve.area)
    assert (reversed_curve.accuracy == curve.accuracy).all()


@given(probs_and_labels(), st.sampled_from([0.5, 0.8, 0.95, 1.0]), st.sampled_from([None, 0.8, 0.95]))
def test_the_smallest_threshold_that_keeps_the_promise(
    rows: tuple[Array, Array], target: float, level: float | None
) -> None:
    confidence, is_correct = rows

    def qualifies(threshold: float) -> bool:
        answered = is_correct[confidence >= threshold]
        if not len(answered):
            return False
        accuracy_reached = (
            answered.mean() if level is None else wilson_interval(float(answered.sum()), len(answered), level).low
        )
        return bool(accuracy_reached >= target - 1e-12)

    best = threshold_for(confidence, is_correct, accuracy=target, level=level)
    qualifying = [threshold for threshold in confidence if qualifies(threshold)]
    if best is None:
        assert not qualifying
        return
    is_answered = confidence >= best.threshold
    assert qualifies(best.threshold)
    assert best.rows == is_answered.sum() == max((confidence >= threshold).sum() for threshold in qualifying)
    assert best.coverage == pytest.approx(is_answered.mean())
    assert best.accuracy == pytest.approx(is_correct[is_answered].mean())


def test_a_bound_answers_less() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random(2000)
    is_correct = rng.random(2000) < confidence
    plain, careful = (
        threshold_for(confidence, is_correct, accuracy=0.9),
        threshold_for(confidence, is_correct, accuracy=0.9, level=0.95),
    )
    assert plain is not None
    assert careful is not None
    assert careful.coverage < plain.coverage
    assert careful.low >= 0.9 > plain.low
    assert threshold_for(confidence, is_correct, accuracy=0.4) == threshold_for(confidence, is_correct, accuracy=0.1)
    everything = threshold_for(confidence, is_correct, accuracy=0.1)
    assert everything is not None
    assert (everything.threshold, everything.coverage) == (0, 1)
    assert threshold_for([0.9, 0.8], [0, 0]) is None
