"""Intervals: weights mean repeated rows, fast and slow ways agree, and intervals cover as often as they say."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import InputError
from clearhead.metrics import (
    Interval,
    accuracy,
    average_precision,
    balanced_accuracy,
    bootstrap,
    bootstrap_all,
    brier_score,
    expected_calibration_error,
    f1,
    log_loss,
    mae,
    matthews_corrcoef,
    maximum_calibration_error,
    mse,
    pearson,
    precision,
    proportion,
    r2,
    recall,
    roc_auc,
    spearman,
    subset_accuracy,
    wilson_interval,
)
from clearhead.metrics.resamples import SamplingUnits, draw_resamples, draw_swaps, merge_equal_rows, row_units
from clearhead.metrics.weights import find_spec
from tests.metrics.rows import Array, classes, reals, scored, stats, tables

COUNTED: list[Callable[..., float]] = [
    accuracy,
    balanced_accuracy,
    matthews_corrcoef,
    precision,
    recall,
    *(partial(f1, average=average) for average in ("macro", "micro", "weighted")),
]


def same_as_repeated(metric: Callable[..., float], rows: tuple[Array, ...], seed: int) -> None:
    form = find_spec(metric)
    assert form is not None
    weights = np.random.default_rng(seed).integers(0, 3, (len(rows[0]), 8))
    weights[0] = np.maximum(weights[0], 1)  # at least one row
    values = form.bind(*rows).values(weights.astype(float))
    for column, value in zip(weights.T, values, strict=True):
        repeated = np.repeat(np.arange(len(column)), column)
        assert value == pytest.approx(metric(*(side[repeated] for side in rows)), rel=1e-6, abs=1e-9, nan_ok=True)


@given(classes(), st.integers(0, 999))
def test_weights_repeat_rows_of_classes(rows: tuple[Array, Array], seed: int) -> None:
    for metric in COUNTED:
        same_as_repeated(metric, rows, seed)
    same_as_repeated(proportion, (rows[0] == rows[1],), seed)


@given(tables(), st.integers(0, 999))
def test_weights_repeat_rows_of_several_labels(rows: tuple[Array, Array], seed: int) -> None:
    for average in ("macro", "micro", "weighted", "samples"):
        same_as_repeated(partial(f1, average=average), rows, seed)
    same_as_repeated(subset_accuracy, rows, seed)
    same_as_repeated(expected_calibration_error, (rows[1] * 0.6 + 0.1, rows[0]), seed)


@given(scored(), st.integers(0, 999))
def test_weights_repeat_rows_of_probabilities(rows: tuple[Array, Array], seed: int) -> None:
    for metric in (roc_auc, average_precision, log_loss, brier_score):
        same_as_repeated(metric, rows, seed)
    for error in (expected_calibration_error, maximum_calibration_error):
        same_as_repeated(error, rows[::-1], seed)


@given(reals(), st.integers(0, 999))
def test_weights_repeat_rows_of_numbers(rows: tuple[Array, Array], seed: int) -> None:
    for metric in (spearman, mse, mae):
        same_as_repeated(metric, rows, seed)
    if all(np.unique(side).size < 2 or np.diff(np.unique(side)).min() > 1e-3 for side in rows):
        for metric in (pearson, r2):  # where rows are all but equal both ways have no digits left
            same_as_repeated(metric, rows, seed)


def data(rows: int = 300, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, rows)
    return labels, np.where(rng.random(rows) < 0.8, labels, rng.integers(0, 3, rows))


@pytest.mark.parametrize("metric", COUNTED, ids=range(len(COUNTED)))
def test_counting_kinds_is_as_good_as_drawing_rows(metric: Callable[..., float]) -> None:
    labels, predictions = data()
    fast = bootstrap(metric, labels, predictions, n=4000)
    slow = bootstrap(lambda *rows: metric(*rows), labels, predictions, n=1000)  # not known, so called for each resample
    assert fast.value == slow.value == metric(labels, predictions)
    assert (fast.low, fast.high) == pytest.approx((slow.low, slow.high), abs=0.015)


def test_kinds_have_the_spread_of_the_binomial() -> None:
    right = np.arange(400) < 300
    interval = bootstrap(proportion, right, n=20_000)
    assert interval.low == pytest.approx(stats.binom(400, 0.75).ppf(0.025) / 400, abs=0.005)
    assert interval.high == pytest.approx(stats.binom(400, 0.75).ppf(0.975) / 400, abs=0.005)


def test_agrees_with_scipy() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=80)
    y = x + rng.normal(size=80)
    theirs = stats.bootstrap(
        (x, y), lambda a, b: pearson(a, b), paired=True, vectorized=False, method="percentile", n_resamples=2000, rng=1
    ).confidence_interval
    ours = bootstrap(pearson, x, y, n=2000)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.02)


def test_intervals_cover_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    covered = {"share": 0, "wilson": 0, "pearson": 0, "wrong": 0}
    for trial in range(300):
        right = rng.random(150) < 0.7
        interval, exact = bootstrap(proportion, right, n=400, seed=trial), wilson_interval(right.sum(), 150)
        covered["share"] += interval.low <= 0.7 <= interval.high
        covered["wilson"] += exact.low <= 0.7 <= exact.high
        covered["wrong"] += interval.low <= 0.8 <= interval.high
        x = rng.normal(size=150)
        related = bootstrap(pearson, x, 0.6 * x + 0.8 * rng.normal(size=150), n=400, seed=trial)
        covered["pearson"] += related.low <= 0.6 <= related.high
    for name in ("share", "wilson", "pearson"):
        assert 0.90 <= covered[name] / 300 <= 0.99, name
    assert covered["wrong"] / 300 < 0.4


def test_a_seed_is_a_promise() -> None:
    rows = data()
    assert bootstrap(f1, *rows) == bootstrap(f1, *rows)
    assert bootstrap(f1, *rows) != bootstrap(f1, *rows, seed=1)
    mixed = np.random.default_rng(0).permutation(300)
    assert bootstrap(f1, *rows) == bootstrap(f1, *(side[mixed] for side in rows))  # kinds have no order


def test_higher_levels_are_wider() -> None:
    rows = data()
    narrow, wide = bootstrap(accuracy, *rows, level=0.5), bootstrap(accuracy, *rows, level=0.99)
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


def test_groups_are_drawn_together() -> None:
    # ten rows of each group say the same, so there are 30 facts here and not 300
    right = np.repeat(np.arange(30) % 3 > 0, 10)
    groups = np.repeat([f"author {place}" for place in range(30)], 10)
    alone, together = bootstrap(proportion, right), bootstrap(proportion, right, groups=groups)
    assert alone.value == together.value
    assert (together.high - together.low) > 2.5 * (alone.high - alone.low)
    slow = bootstrap(lambda rows: proportion(rows), right, groups=groups)
    assert (slow.low, slow.high) == pytest.approx((together.low, together.high), abs=0.04)


def test_undefined_resamples_are_counted() -> None:
    labels, scores = np.array([1, 0, 0, 0, 0]), np.array([0.9, 0.2, 0.1, 0.3, 0.2])
    interval = bootstrap(roc_auc, labels, scores)
    # 0.8^5 of the resamples miss the only positive row, and 0.2^5 have nothing else
    assert interval.skipped == pytest.approx(1000 * 0.8**5, abs=60)
    assert interval.n == 1000
    assert not math.isnan(interval.low)

    def refuses(rows: Array) -> float:
        if not rows.any():
            raise InputError("There is nothing.")
        return 1.0

    assert bootstrap(refuses, labels).skipped == pytest.approx(1000 * 0.8**5, abs=60)
    nothing = bootstrap(roc_auc, np.zeros(5, int), scores)
    assert (nothing.n, nothing.skipped) == (1000, 1000)
    assert math.isnan(nothing.value)
    assert math.isnan(nothing.low)


def test_one_row_or_one_group_has_no_interval() -> None:
    for interval in (
        bootstrap(accuracy, [1], [1]),
        bootstrap(lambda rows: float(rows.sum()), [1]),
        bootstrap(accuracy, [1, 0], [1, 1], groups=["a", "a"]),
        bootstrap(accuracy, [1, 0], [1, 1], n=0),
    ):
        assert math.isnan(interval.low)
        assert math.isnan(interval.high)
        assert not math.isnan(interval.value)


def test_all_right_is_not_certain() -> None:
    interval = bootstrap(accuracy, [1] * 20, [1] * 20)
    assert interval.method == "wilson"
    assert interval.value == interval.high == 1
    assert interval.low == pytest.approx(0.839, abs=0.001)
    grouped = bootstrap(accuracy, [1] * 20, [1] * 20, groups=[0, 1] * 10)
    assert grouped.low == wilson_interval(2, 2).low


@given(st.integers(0, 400), st.integers(1, 400), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_equals_scipy(right: int, rows: int, level: float) -> None:
    right = min(right, rows)
    theirs = stats.binomtest(right, rows).proportion_ci(level, method="wilson")
    ours = wilson_interval(right, rows, level)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert ours.low <= ours.value <= ours.high


def test_several_metrics_share_their_resamples() -> None:
    rows = data()
    both = bootstrap_all({"one": accuracy, "other": partial(f1, average="micro"), "own": lambda *_: 1.0}, *rows, n=200)
    assert list(both) == ["one", "other", "own"]
    assert both["one"] == bootstrap(accuracy, *rows, n=200)
    assert (both["one"].low, both["one"].high) == pytest.approx((both["other"].low, both["other"].high))


def test_weights_of_resamples_add_up() -> None:
    labels, predictions = data(1000)
    kinds, rows = merge_equal_rows([labels, predictions])
    assert kinds.counts is not None
    assert kinds.size == len(rows[0]) == 9
    for units in (kinds, SamplingUnits(size=1000), row_units(1000, labels)):
        drawn = list(draw_resamples(units, 300, 0))
        assert sum(part.shape[1] for part in drawn) == 300
        if units.groups is None:
            assert all((part.sum(0) == 1000).all() for part in drawn)
        for part in draw_swaps(units, 300, 0):
            assert part.min() >= 0
            assert (part <= units.original_weights()).all()
            assert part.sum(0).mean() == pytest.approx(500, rel=0.2)
    everywhere = np.concatenate(list(draw_resamples(SamplingUnits(size=1000), 300, 0)), 1).mean(1)
    assert everywhere.mean() == 1
    assert everywhere.min() > 0.7
    assert everywhere.max() < 1.3


def test_an_interval_can_be_read() -> None:
    assert str(Interval(value=0.91234, low=0.87, high=0.95)) == "0.912 (0.870 to 0.950)"
