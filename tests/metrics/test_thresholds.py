"""Thresholds: no other one is better, ties are settled as promised, curves follow their definition."""

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
    "f1": lambda labels, said: f1(labels, said, average="binary"),
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "matthews": matthews_corrcoef,
}


@st.composite
def decisions(draw: st.DrawFn) -> tuple[Array, Array]:
    """Probabilities with many ties, and 0 or 1."""
    rows = draw(st.integers(1, 30))
    level = st.one_of(st.integers(0, 10).map(lambda tenth: tenth / 10), st.floats(0, 1))
    probs = draw(st.lists(level, min_size=rows, max_size=rows))
    return np.array(probs), np.array(draw(st.lists(st.integers(0, 1), min_size=rows, max_size=rows)))


@given(decisions(), st.sampled_from(sorted(METRICS)))
def test_no_other_threshold_is_better(rows: tuple[Array, Array], name: str) -> None:
    probs, labels = rows
    found = best_threshold(probs, labels, name)
    metric = METRICS[name]
    assert 0 <= found.threshold <= 1
    assert metric(labels, probs >= found.threshold) == pytest.approx(found.value)
    every = [0.0, 0.5, 1.0, *probs, *np.nextafter(probs, 2).clip(0, 1)]
    assert found.value >= max(metric(labels, probs >= other) for other in every) - 1e-9
    if metric(labels, probs >= 0.5) >= found.value - 1e-12:
        assert found.threshold == 0.5  # it is kept unless another is better


def test_ties_go_to_the_nearest_to_a_half() -> None:
    assert best_threshold([0.1, 0.2, 0.9], [0, 1, 1]).threshold == pytest.approx(0.15)
    assert best_threshold([0.9, 0.8, 0.6], [1, 0, 0]).threshold == pytest.approx(0.85)
    # predicting all at 0.05 and only the two above 0.3 are equally good in accuracy: 2 of 4; 0.5 is no better
    assert best_threshold([0.2, 0.4, 0.6, 0.8], [1, 0, 1, 0], "accuracy").threshold == 0.5
    # 0.3 and 0.7 give the same, and are equally far: the lower
    assert best_threshold([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1], "accuracy").threshold == pytest.approx(0.3)


def test_a_label_without_rows_keeps_a_half() -> None:
    probs = np.array([[0.9, 0.3], [0.2, 0.4], [0.1, 0.1]])
    found = best_thresholds(probs, [[1, 0], [1, 0], [0, 0]])
    assert [each.threshold for each in found] == pytest.approx([0.15, 0.5])
    assert [each.value for each in found] == [1, 0]


def test_neighbouring_numbers_are_told_apart() -> None:
    low = 0.3
    high = float(np.nextafter(low, 1))
    found = best_threshold([low, high], [0, 1])
    assert found.value == 1
    assert low < found.threshold <= high
    assert best_threshold([0.0, 1.0], [1, 0], "accuracy").value == 0.5  # a probability of 1 always passes


@given(decisions())
def test_the_curve_follows_its_definition(rows: tuple[Array, Array]) -> None:
    sure, right = rows
    curve = coverage_curve(sure, right)
    assert curve.threshold.tolist() == sorted(set(sure.tolist()), reverse=True)
    for threshold, coverage, share in zip(curve.threshold, curve.coverage, curve.accuracy, strict=True):
        answered = sure >= threshold
        assert coverage == pytest.approx(answered.mean())
        assert share == pytest.approx(right[answered].mean())
    assert curve.area == pytest.approx(np.mean([1 - right[sure >= own].mean() for own in sure]))
    back = coverage_curve(sure[::-1], right[::-1])
    assert back.area == pytest.approx(curve.area)
    assert (back.accuracy == curve.accuracy).all()


@given(decisions(), st.sampled_from([0.5, 0.8, 0.95, 1.0]), st.sampled_from([None, 0.8, 0.95]))
def test_the_smallest_threshold_that_keeps_the_promise(
    rows: tuple[Array, Array], target: float, level: float | None
) -> None:
    sure, right = rows

    def good(threshold: float) -> bool:
        own = right[sure >= threshold]
        if not len(own):
            return False
        reached = own.mean() if level is None else wilson_interval(float(own.sum()), len(own), level).low
        return bool(reached >= target - 1e-12)

    found = threshold_for(sure, right, accuracy=target, level=level)
    promising = [threshold for threshold in sure if good(threshold)]
    if found is None:
        assert not promising
        return
    answered = sure >= found.threshold
    assert good(found.threshold)
    assert found.rows == answered.sum() == max((sure >= threshold).sum() for threshold in promising)
    assert found.coverage == pytest.approx(answered.mean())
    assert found.accuracy == pytest.approx(right[answered].mean())


def test_a_bound_answers_less() -> None:
    rng = np.random.default_rng(0)
    sure = rng.random(2000)
    right = rng.random(2000) < sure
    plain, careful = threshold_for(sure, right, accuracy=0.9), threshold_for(sure, right, accuracy=0.9, level=0.95)
    assert plain is not None
    assert careful is not None
    assert careful.coverage < plain.coverage
    assert careful.low >= 0.9 > plain.low
    assert threshold_for(sure, right, accuracy=0.4) == threshold_for(sure, right, accuracy=0.1)
    everything = threshold_for(sure, right, accuracy=0.1)
    assert everything is not None
    assert (everything.threshold, everything.coverage) == (0, 1)
    assert threshold_for([0.9, 0.8], [0, 0]) is None
