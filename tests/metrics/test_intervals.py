"""Intervals: weights equal repeated rows, vectorized and plain bootstrap agree, and coverage matches the level."""

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
from tests.metrics.rows import Array, class_columns, label_tables, labels_and_probs, real_pairs, stats

COUNT_METRICS: list[Callable[..., float]] = [
    accuracy,
    balanced_accuracy,
    matthews_corrcoef,
    precision,
    recall,
    *(partial(f1, average=average) for average in ("macro", "micro", "weighted")),
]


def check_against_repeated_rows(metric: Callable[..., float], rows: tuple[Array, ...], seed: int) -> None:
    spec = find_spec(metric)
    assert spec is not None
    weights = np.random.default_rng(seed).integers(0, 3, (len(rows[0]), 8))
    weights[0] = np.maximum(weights[0], 1)  # at least one row
    values = spec.bind(*rows).values(weights.astype(float))
    for row_counts, value in zip(weights.T, values, strict=True):
        repeated = np.repeat(np.arange(len(row_counts)), row_counts)
        assert value == pytest.approx(
            metric(*(row_counts[repeated] for row_counts in rows)), rel=1e-6, abs=1e-9, nan_ok=True
        )


@given(class_columns(), st.integers(0, 999))
def test_weights_repeat_rows_of_classes(rows: tuple[Array, Array], seed: int) -> None:
    for metric in COUNT_METRICS:
        check_against_repeated_rows(metric, rows, seed)
    check_against_repeated_rows(proportion, (rows[0] == rows[1],), seed)


@given(label_tables(), st.integers(0, 999))
def test_weights_repeat_rows_of_several_labels(rows: tuple[Array, Array], seed: int) -> None:
    for average in ("macro", "micro", "weighted", "samples"):
        check_against_repeated_rows(partial(f1, average=average), rows, seed)
    check_against_repeated_rows(subset_accuracy, rows, seed)
    check_against_repeated_rows(expected_calibration_error, (rows[1] * 0.6 + 0.1, rows[0]), seed)


@given(labels_and_probs(), st.integers(0, 999))
def test_weights_repeat_rows_of_probabilities(rows: tuple[Array, Array], seed: int) -> None:
    for metric in (roc_auc, average_precision, log_loss, brier_score):
        check_against_repeated_rows(metric, rows, seed)
    for error in (expected_calibration_error, maximum_calibration_error):
        check_against_repeated_rows(error, rows[::-1], seed)


@given(real_pairs(), st.integers(0, 999))
def test_weights_repeat_rows_of_numbers(rows: tuple[Array, Array], seed: int) -> None:
    for metric in (spearman, mse, mae):
        check_against_repeated_rows(metric, rows, seed)
    if all(np.unique(side).size < 2 or np.diff(np.unique(side)).min() > 1e-3 for side in rows):
        for metric in (pearson, r2):  # nearly equal rows leave no significant digits to compare
            check_against_repeated_rows(metric, rows, seed)


def draw_labels_and_predictions(rows: int = 300, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, rows)
    return labels, np.where(rng.random(rows) < 0.8, labels, rng.integers(0, 3, rows))


@pytest.mark.parametrize("metric", COUNT_METRICS, ids=range(len(COUNT_METRICS)))
def test_counting_kinds_is_as_good_as_drawing_rows(metric: Callable[..., float]) -> None:
    labels, predictions = draw_labels_and_predictions()
    merged = bootstrap(metric, labels, predictions, n=4000)
    unmerged = bootstrap(
        lambda *rows: metric(*rows), labels, predictions, n=1000
    )  # not a known metric, so called once per resample
    assert merged.value == unmerged.value == metric(labels, predictions)
    assert (merged.low, merged.high) == pytest.approx((unmerged.low, unmerged.high), abs=0.015)


def test_kinds_have_the_spread_of_the_binomial() -> None:
    is_correct = np.arange(400) < 300
    interval = bootstrap(proportion, is_correct, n=20_000)
    assert interval.low == pytest.approx(stats.binom(400, 0.75).ppf(0.025) / 400, abs=0.005)
    assert interval.high == pytest.approx(stats.binom(400, 0.75).ppf(0.975) / 400, abs=0.005)


def test_agrees_with_scipy() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=80)
    y = x + rng.normal(size=80)
    expected = stats.bootstrap(
        (x, y), lambda a, b: pearson(a, b), paired=True, vectorized=False, method="percentile", n_resamples=2000, rng=1
    ).confidence_interval
    interval = bootstrap(pearson, x, y, n=2000)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=0.02)


def test_intervals_cover_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    cover_counts = {"share": 0, "wilson": 0, "pearson": 0, "wrong": 0}
    for trial in range(300):
        is_correct = rng.random(150) < 0.7
        interval, wilson = bootstrap(proportion, is_correct, n=400, seed=trial), wilson_interval(is_correct.sum(), 150)
        cover_counts["share"] += interval.low <= 0.7 <= interval.high
        cover_counts["wilson"] += wilson.low <= 0.7 <= wilson.high
        cover_counts["wrong"] += interval.low <= 0.8 <= interval.high
        x = rng.normal(size=150)
        pearson_interval = bootstrap(pearson, x, 0.6 * x + 0.8 * rng.normal(size=150), n=400, seed=trial)
        cover_counts["pearson"] += pearson_interval.low <= 0.6 <= pearson_interval.high
    for name in ("share", "wilson", "pearson"):
        assert 0.90 <= cover_counts[name] / 300 <= 0.99, name
    assert cover_counts["wrong"] / 300 < 0.4


def test_a_seed_is_a_promise() -> None:
    rows = draw_labels_and_predictions()
    assert bootstrap(f1, *rows) == bootstrap(f1, *rows)
    assert bootstrap(f1, *rows) != bootstrap(f1, *rows, seed=1)
    shuffled = np.random.default_rng(0).permutation(300)
    assert bootstrap(f1, *rows) == bootstrap(f1, *(column[shuffled] for column in rows))  # distinct rows have no order


def test_higher_levels_are_wider() -> None:
    rows = draw_labels_and_predictions()
    narrow, wide = bootstrap(accuracy, *rows, level=0.5), bootstrap(accuracy, *rows, level=0.99)
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


def test_groups_are_drawn_together() -> None:
    # the ten rows of a group are equal, so there are 30 independent observations, not 300
    is_correct = np.repeat(np.arange(30) % 3 > 0, 10)
    groups = np.repeat([f"author {author}" for author in range(30)], 10)
    ungrouped, grouped = bootstrap(proportion, is_correct), bootstrap(proportion, is_correct, groups=groups)
    assert ungrouped.value == grouped.value
    assert (grouped.high - grouped.low) > 2.5 * (ungrouped.high - ungrouped.low)
    unvectorized = bootstrap(lambda rows: proportion(rows), is_correct, groups=groups)
    assert (unvectorized.low, unvectorized.high) == pytest.approx((grouped.low, grouped.high), abs=0.04)


def test_undefined_resamples_are_counted() -> None:
    labels, scores = np.array([1, 0, 0, 0, 0]), np.array([0.9, 0.2, 0.1, 0.3, 0.2])
    interval = bootstrap(roc_auc, labels, scores)
    # 0.8^5 of the resamples miss the only positive row, and 0.2^5 contain no other
    assert interval.skipped == pytest.approx(1000 * 0.8**5, abs=60)
    assert interval.n == 1000
    assert not math.isnan(interval.low)

    def reject_negatives_only(rows: Array) -> float:
        if not rows.any():
            raise InputError("No positive rows.")
        return 1.0

    assert bootstrap(reject_negatives_only, labels).skipped == pytest.approx(1000 * 0.8**5, abs=60)
    undefined = bootstrap(roc_auc, np.zeros(5, int), scores)
    assert (undefined.n, undefined.skipped) == (1000, 1000)
    assert math.isnan(undefined.value)
    assert math.isnan(undefined.low)


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
def test_wilson_equals_scipy(correct: int, rows: int, level: float) -> None:
    correct = min(correct, rows)
    expected = stats.binomtest(correct, rows).proportion_ci(level, method="wilson")
    interval = wilson_interval(correct, rows, level)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert interval.low <= interval.value <= interval.high


def test_several_metrics_share_their_resamples() -> None:
    rows = draw_labels_and_predictions()
    intervals = bootstrap_all(
        {"one": accuracy, "other": partial(f1, average="micro"), "own": lambda *_: 1.0}, *rows, n=200
    )
    assert list(intervals) == ["one", "other", "own"]
    assert intervals["one"] == bootstrap(accuracy, *rows, n=200)
    assert (intervals["one"].low, intervals["one"].high) == pytest.approx(
        (intervals["other"].low, intervals["other"].high)
    )


def test_weights_of_resamples_add_up() -> None:
    labels, predictions = draw_labels_and_predictions(1000)
    merged_units, rows = merge_equal_rows([labels, predictions])
    assert merged_units.counts is not None
    assert merged_units.size == len(rows[0]) == 9
    for units in (merged_units, SamplingUnits(size=1000), row_units(1000, labels)):
        chunks = list(draw_resamples(units, 300, 0))
        assert sum(chunk.shape[1] for chunk in chunks) == 300
        if units.groups is None:
            assert all((chunk.sum(0) == 1000).all() for chunk in chunks)
        for chunk in draw_swaps(units, 300, 0):
            assert chunk.min() >= 0
            assert (chunk <= units.original_weights()).all()
            assert chunk.sum(0).mean() == pytest.approx(500, rel=0.2)
    mean_weights = np.concatenate(list(draw_resamples(SamplingUnits(size=1000), 300, 0)), 1).mean(1)
    assert mean_weights.mean() == 1
    assert mean_weights.min() > 0.7
    assert mean_weights.max() < 1.3


def test_an_interval_can_be_read() -> None:
    assert str(Interval(value=0.91234, low=0.87, high=0.95)) == "0.912 (0.870 to 0.950)"
