"""Correlations are equal to those of scipy, errors to those of scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from clearhead.metrics import kendall, mae, mse, pearson, r2, spearman
from tests.metrics.rows import Array, real_pairs, silent, stats


@given(real_pairs())
def test_correlations_equal_the_reference(rows: tuple[Array, Array]) -> None:
    for metric, expected_metric in ((spearman, stats.spearmanr), (kendall, stats.kendalltau)):
        assert metric(*rows) == pytest.approx(silent(expected_metric)(*rows).statistic, abs=1e-9, nan_ok=True)
    is_nearly_constant = any(
        np.ptp(column) < 1e-9 * np.abs(column).max() for column in rows
    )  # scipy warns about precision
    if not is_nearly_constant or all(np.ptp(column) == 0 for column in rows):
        assert pearson(*rows) == pytest.approx(silent(stats.pearsonr)(*rows).statistic, abs=1e-9, nan_ok=True)


@given(real_pairs())
def test_errors_equal_the_reference(rows: tuple[Array, Array]) -> None:
    assert mse(*rows) == pytest.approx(reference.mean_squared_error(*rows))
    assert mae(*rows) == pytest.approx(reference.mean_absolute_error(*rows))
    if np.ptp(rows[0]) == 0:
        assert math.isnan(r2(*rows))  # 0 or 1 in scikit-learn; there is no variance to explain
    else:
        assert r2(*rows) == pytest.approx(reference.r2_score(*rows))


@given(real_pairs(), st.integers(0, 999))
def test_order_does_not_matter(rows: tuple[Array, Array], seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(len(rows[0]))
    for metric in (pearson, spearman, kendall, mse, mae, r2):
        original, reordered = metric(*rows), metric(*(column[shuffled] for column in rows))
        assert original == pytest.approx(reordered, rel=1e-6, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("metric", [pearson, spearman, kendall])
def test_what_never_varies_has_no_correlation(metric: object) -> None:
    assert callable(metric)
    for rows in (([1.0], [2.0]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0.1, 0.1, 0.1]), ([0.1] * 7, [0.3] * 7)):
        assert math.isnan(metric(*rows))
        assert math.isnan(metric(*rows[::-1]))


def test_large_and_tiny_numbers() -> None:
    x = np.array([1.0, 2.0, 4.0, 3.0])
    for scale, shift in ((1e-90, 0.0), (1e90, 0.0), (1e-3, 1e6)):
        assert pearson(x, x * scale + shift) == pytest.approx(1, abs=1e-6)
        assert pearson(x, -x * scale + shift) == pytest.approx(-1, abs=1e-6)
    assert r2(x * 1e90, x * 1e90) == 1


def test_kendall_on_many_rows() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 900, 5000)
    y = x + rng.integers(-300, 300, 5000)
    assert kendall(x, y) == pytest.approx(stats.kendalltau(x, y).statistic)
    changed = y.copy()
    changed[0] += 5000
    assert kendall(x, changed) != pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-9)
