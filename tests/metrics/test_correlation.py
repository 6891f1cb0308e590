"""Correlations are equal to scipy's, errors to scikit-learn's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from clearhead.metrics import kendall, mae, mse, pearson, r2, spearman
from tests.metrics.rows import Array, reals, silent, stats


@given(reals())
def test_correlations_equal_the_reference(rows: tuple[Array, Array]) -> None:
    for ours, theirs in ((spearman, stats.spearmanr), (kendall, stats.kendalltau)):
        assert ours(*rows) == pytest.approx(silent(theirs)(*rows).statistic, abs=1e-9, nan_ok=True)
    near = any(np.ptp(side) < 1e-9 * np.abs(side).max() for side in rows)  # there scipy warns of its own digits
    if not near or all(np.ptp(side) == 0 for side in rows):
        assert pearson(*rows) == pytest.approx(silent(stats.pearsonr)(*rows).statistic, abs=1e-9, nan_ok=True)


@given(reals())
def test_errors_equal_the_reference(rows: tuple[Array, Array]) -> None:
    assert mse(*rows) == pytest.approx(reference.mean_squared_error(*rows))
    assert mae(*rows) == pytest.approx(reference.mean_absolute_error(*rows))
    if np.ptp(rows[0]) == 0:
        assert math.isnan(r2(*rows))  # scikit-learn says 0 or 1; there is no variance to explain
    else:
        assert r2(*rows) == pytest.approx(reference.r2_score(*rows))


@given(reals(), st.integers(0, 999))
def test_order_does_not_matter(rows: tuple[Array, Array], seed: int) -> None:
    mixed = np.random.default_rng(seed).permutation(len(rows[0]))
    for metric in (pearson, spearman, kendall, mse, mae, r2):
        there, back = metric(*rows), metric(*(side[mixed] for side in rows))
        assert there == pytest.approx(back, rel=1e-6, abs=1e-9, nan_ok=True)


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
    wrong = y.copy()
    wrong[0] += 5000
    assert kendall(x, wrong) != pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-9)
