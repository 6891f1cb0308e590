"""Thinning preserves peaks, smoothing preserves lines, and no log breaks the page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.report.learning_curves import draw_curves, smooth_values, thin_points
from tests.report.samples import make_log


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=2000), st.integers(1, 300))
def test_thinning_keeps_peaks_and_the_mean(values: list[float], max_points: int) -> None:
    points = [(float(step), value) for step, value in enumerate(values)]
    thinned = thin_points(points, max_points)
    assert len(thinned) == min(max_points, len(values))
    assert min(point.low for point in thinned) == min(values)
    assert max(point.high for point in thinned) == max(values)
    assert [point.step for point in thinned] == sorted(point.step for point in thinned)
    assert all(point.low - 1e-6 <= point.mean <= point.high + 1e-6 for point in thinned)


def test_smoothing_keeps_a_straight_line_inside_and_a_constant_everywhere() -> None:
    assert smooth_values([2.0] * 9, 3) == [2.0] * 9
    line = [float(step) for step in range(20)]
    assert smooth_values(line, 3)[3:-3] == pytest.approx(line[3:-3])
    assert smooth_values([0.0, 10.0], 0) == [0.0, 10.0]


def test_the_best_epoch_is_the_last_that_was_better() -> None:
    curves = draw_curves(make_log(300, 3), "Accuracy")
    assert curves is not None
    assert [epoch.best for epoch in curves.epochs] == [False, True, False]
    assert [epoch.steps for epoch in curves.epochs] == [100, 100, 100]
    assert curves.epochs[0].loss == pytest.approx(sum(line["loss"] for line in make_log()[:100]) / 100)
    assert "epoch 2 is the best" in curves.figures[2].caption


def test_a_resumed_log_may_come_in_any_order() -> None:
    ordered = draw_curves(make_log(60), None)
    assert draw_curves(make_log(60)[::-1], None) == ordered


WILD = st.one_of(st.none(), st.booleans(), st.text(max_size=3), st.integers(), st.floats())


@given(st.lists(st.dictionaries(st.sampled_from(["step", "epoch", "loss", "rate", "score", "best"]), WILD), max_size=8))
def test_no_log_breaks_the_page(log: list[dict[str, object]]) -> None:
    curves = draw_curves(log, "Accuracy")
    if curves is not None:
        assert all("nan" not in str(figure.svg) for figure in curves.figures)
