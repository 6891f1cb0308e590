"""Paired tests: real differences are significant, equal models are not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.metrics import accuracy, f1, kendall, log_loss, mcnemar, mse, paired_test, roc_auc, spearman
from tests.metrics.rows import Array, class_columns, stats


def draw_models(n_rows: int, accuracy_a: float, accuracy_b: float, seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n_rows)
    return (
        labels,
        *(np.where(rng.random(n_rows) < accuracy, labels, 1 - labels) for accuracy in (accuracy_a, accuracy_b)),
    )  # type: ignore[return-value]


def test_a_difference_is_found() -> None:
    rows = draw_models(500, 0.9, 0.8)
    result = paired_test(accuracy, *rows)
    assert result.difference == pytest.approx(accuracy(rows[0], rows[1]) - accuracy(rows[0], rows[2]))
    assert 0 < result.low < result.difference < result.high
    assert result.p < 0.001
    reversed_result = paired_test(accuracy, rows[0], rows[2], rows[1])
    assert reversed_result.difference == -result.difference
    assert reversed_result.p < 0.001


def test_nothing_is_found_where_nothing_is() -> None:
    significant = [paired_test(f1, *draw_models(200, 0.85, 0.85, seed), n=500).p < 0.05 for seed in range(200)]
    assert sum(significant) / 200 < 0.1  # 5 % by definition
    labels, a, _ = draw_models(100, 0.8, 0.8)
    equal_models = paired_test(accuracy, labels, a, a, n=200)
    assert (equal_models.difference, equal_models.low, equal_models.high, equal_models.p) == (0, 0, 0, 1)


def test_randomization_of_accuracy_is_mcnemar() -> None:
    for seed in range(5):
        rows = draw_models(300, 0.85, 0.80, seed)
        assert paired_test(accuracy, *rows, seed=seed).p == pytest.approx(mcnemar(*rows).p, abs=0.03)


def test_fast_and_slow_agree() -> None:
    labels, a, b = draw_models(80, 0.9, 0.75, 3)
    vectorized = paired_test(f1, labels, a, b, n=3000)
    unvectorized = paired_test(lambda *rows: f1(*rows), labels, a, b, n=1000)
    assert vectorized.difference == pytest.approx(unvectorized.difference)
    assert (vectorized.low, vectorized.high, vectorized.p) == pytest.approx(
        (unvectorized.low, unvectorized.high, unvectorized.p), abs=0.03
    )


def test_scores_numbers_and_tables_are_compared_too() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    good_probs, bad_probs = np.clip(labels * 0.4 + rng.random(200) * 0.6, 0, 1), rng.random(200)
    assert paired_test(roc_auc, labels, good_probs, bad_probs, n=500).low > 0.2
    assert (
        paired_test(
            log_loss, labels, np.stack([1 - good_probs, good_probs], 1), np.stack([1 - bad_probs, bad_probs], 1), n=500
        ).high
        < 0
    )
    x = rng.normal(size=100)
    good_predictions, bad_predictions = x + 0.1 * rng.normal(size=100), x + rng.normal(size=100)
    for metric, sign in ((spearman, 1), (mse, -1), (kendall, 1)):
        result = paired_test(metric, x, good_predictions, bad_predictions, n=200)
        assert result.difference * sign > 0
        assert result.p < 0.01


def test_groups_change_sides_together() -> None:
    # one author of ten causes the whole difference: significant by rows, not by authors
    labels = np.ones(200, int)
    a, b = labels.copy(), labels.copy()
    b[:20] = 0
    groups = np.repeat(np.arange(10), 20)
    assert paired_test(accuracy, labels, a, b, n=1000).p < 0.001
    assert paired_test(accuracy, labels, a, b, n=1000, groups=groups).p == 1


def test_undefined_stays_undefined() -> None:
    undefined = paired_test(roc_auc, [0, 0, 0], [0.1, 0.2, 0.3], [0.3, 0.2, 0.1])
    assert math.isnan(undefined.difference)
    assert math.isnan(undefined.p)
    single_row = paired_test(accuracy, [1], [1], [0])
    assert single_row.difference == 1
    assert math.isnan(single_row.p)


@given(class_columns(max_classes=3, n_columns=3))
def test_mcnemar_equals_the_binomial_test(rows: tuple[Array, Array, Array]) -> None:
    labels, a, b = rows
    only_a, only_b = int(((a == labels) & (b != labels)).sum()), int(((a != labels) & (b == labels)).sum())
    result = mcnemar(labels, a, b)
    assert (result.only_a, result.only_b) == (only_a, only_b)
    expected = stats.binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1
    assert result.p == pytest.approx(expected)


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_mcnemar_of_many_rows(only_a: int, only_b: int) -> None:
    rows = only_a + only_b + 1
    labels, a, b = np.ones(rows, int), np.ones(rows, int), np.ones(rows, int)
    b[:only_a] = 0
    a[only_a : only_a + only_b] = 0
    expected = stats.binomtest(only_a, rows - 1).pvalue if rows > 1 else 1
    assert mcnemar(labels, a, b).p == pytest.approx(expected, rel=1e-6, abs=1e-300)
