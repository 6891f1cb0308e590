"""Paired tests: nothing is found where nothing is, a difference is found where one is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.metrics import accuracy, f1, kendall, log_loss, mcnemar, mse, paired_test, roc_auc, spearman
from tests.metrics.rows import Array, classes, stats


def models(rows: int, a: float, b: float, seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, rows)
    return (labels, *(np.where(rng.random(rows) < right, labels, 1 - labels) for right in (a, b)))  # type: ignore[return-value]


def test_a_difference_is_found() -> None:
    rows = models(500, 0.9, 0.8)
    found = paired_test(accuracy, *rows)
    assert found.difference == pytest.approx(accuracy(rows[0], rows[1]) - accuracy(rows[0], rows[2]))
    assert 0 < found.low < found.difference < found.high
    assert found.p < 0.001
    back = paired_test(accuracy, rows[0], rows[2], rows[1])
    assert back.difference == -found.difference
    assert back.p < 0.001


def test_nothing_is_found_where_nothing_is() -> None:
    small = [paired_test(f1, *models(200, 0.85, 0.85, seed), n=500).p < 0.05 for seed in range(200)]
    assert sum(small) / 200 < 0.1  # five in a hundred by definition
    labels, a, _ = models(100, 0.8, 0.8)
    same = paired_test(accuracy, labels, a, a, n=200)
    assert (same.difference, same.low, same.high, same.p) == (0, 0, 0, 1)


def test_randomisation_of_accuracy_is_mcnemar() -> None:
    for seed in range(5):
        rows = models(300, 0.85, 0.80, seed)
        assert paired_test(accuracy, *rows, seed=seed).p == pytest.approx(mcnemar(*rows).p, abs=0.03)


def test_fast_and_slow_agree() -> None:
    labels, a, b = models(80, 0.9, 0.75, 3)
    fast = paired_test(f1, labels, a, b, n=3000)
    slow = paired_test(lambda *rows: f1(*rows), labels, a, b, n=1000)
    assert fast.difference == pytest.approx(slow.difference)
    assert (fast.low, fast.high, fast.p) == pytest.approx((slow.low, slow.high, slow.p), abs=0.03)


def test_scores_numbers_and_tables_are_compared_too() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    good, bad = np.clip(labels * 0.4 + rng.random(200) * 0.6, 0, 1), rng.random(200)
    assert paired_test(roc_auc, labels, good, bad, n=500).low > 0.2
    assert paired_test(log_loss, labels, np.stack([1 - good, good], 1), np.stack([1 - bad, bad], 1), n=500).high < 0
    x = rng.normal(size=100)
    near, far = x + 0.1 * rng.normal(size=100), x + rng.normal(size=100)
    for metric, sign in ((spearman, 1), (mse, -1), (kendall, 1)):
        found = paired_test(metric, x, near, far, n=200)
        assert found.difference * sign > 0
        assert found.p < 0.01


def test_groups_change_sides_together() -> None:
    # one author of ten makes the whole difference: by rows it looks certain, by authors it does not
    labels = np.ones(200, int)
    a, b = labels.copy(), labels.copy()
    b[:20] = 0
    groups = np.repeat(np.arange(10), 20)
    assert paired_test(accuracy, labels, a, b, n=1000).p < 0.001
    assert paired_test(accuracy, labels, a, b, n=1000, groups=groups).p == 1


def test_undefined_stays_undefined() -> None:
    nothing = paired_test(roc_auc, [0, 0, 0], [0.1, 0.2, 0.3], [0.3, 0.2, 0.1])
    assert math.isnan(nothing.difference)
    assert math.isnan(nothing.p)
    one = paired_test(accuracy, [1], [1], [0])
    assert one.difference == 1
    assert math.isnan(one.p)


@given(classes(most=3, columns=3))
def test_mcnemar_equals_the_binomial_test(rows: tuple[Array, Array, Array]) -> None:
    labels, a, b = rows
    only_a, only_b = int(((a == labels) & (b != labels)).sum()), int(((a != labels) & (b == labels)).sum())
    found = mcnemar(labels, a, b)
    assert (found.only_a, found.only_b) == (only_a, only_b)
    expected = stats.binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1
    assert found.p == pytest.approx(expected)


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_mcnemar_of_many_rows(only_a: int, only_b: int) -> None:
    rows = only_a + only_b + 1
    labels, a, b = np.ones(rows, int), np.ones(rows, int), np.ones(rows, int)
    b[:only_a] = 0
    a[only_a : only_a + only_b] = 0
    expected = stats.binomtest(only_a, rows - 1).pvalue if rows > 1 else 1
    assert mcnemar(labels, a, b).p == pytest.approx(expected, rel=1e-6, abs=1e-300)
