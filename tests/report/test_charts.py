"""Axes hold what they show, thinning keeps peaks, and numbers are not said more grandly than they are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.explain.svg.numbers import exponent
from clearhead.explain.svg.plot import along, axis, tick_text
from clearhead.report.formatting import UNKNOWN, cut, duration, figure, flat, known, lines, percent
from clearhead.report.learning_curves import curves, smoothed, thinned
from tests.report.samples import log_lines

NUMBERS = st.floats(-1e20, 1e20).filter(lambda value: value == 0 or abs(value) > 1e-20)


@given(st.lists(NUMBERS, min_size=1, max_size=20), st.booleans())
def test_an_axis_holds_its_values(values: list[float], zero: bool) -> None:
    made = axis(values, "x", zero=zero)
    reach = (made.high - made.low) * 1e-6
    assert made.low - reach <= min(values)
    assert max(values) <= made.high + reach
    assert made.low < made.high
    assert 2 <= len(made.ticks) <= 9
    texts = [tick_text(tick, made.ticks) for tick in made.ticks]
    if min(map(abs, values)) > 1e-3 * (max(values) - min(values)):
        assert all(texts)
    assert not zero or min(values) < 0 or made.low == 0


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=5))
def test_steps_are_marked_where_they_fall(steps: list[int]) -> None:
    made = along(min(steps), max(steps), "step")
    assert made.low < made.high
    assert all(made.low <= tick <= made.high for tick in made.ticks)


def test_ticks_read_well() -> None:
    ticks = axis([0.0, 5e-5], "rate", zero=True).ticks
    assert [tick_text(tick, ticks) for tick in ticks] == ["0", "1e-5", "2e-5", "3e-5", "4e-5", "5e-5"]
    ticks = axis([0.81, 0.93], "score").ticks
    assert [tick_text(tick, ticks) for tick in ticks] == ["0.80", "0.85", "0.90", "0.95"]
    ticks = along(1, 100_000, "step").ticks
    assert [tick_text(tick, ticks) for tick in ticks] == ["20k", "40k", "60k", "80k", "100k"]
    ticks = axis([-0.3, 1.0], "r").ticks
    assert [tick_text(tick, ticks) for tick in ticks] == ["−0.5", "0", "0.5", "1.0"]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=2000), st.integers(1, 300))
def test_thinning_keeps_peaks_and_the_mean(values: list[float], most: int) -> None:
    points = [(float(place), value) for place, value in enumerate(values)]
    made = thinned(points, most)
    assert len(made) == min(most, len(values))
    assert min(part.low for part in made) == min(values)
    assert max(part.high for part in made) == max(values)
    assert [part.step for part in made] == sorted(part.step for part in made)
    assert all(part.low - 1e-6 <= part.mean <= part.high + 1e-6 for part in made)


def test_smoothing_keeps_a_straight_line_inside_and_a_constant_everywhere() -> None:
    assert smoothed([2.0] * 9, 3) == [2.0] * 9
    line = [float(place) for place in range(20)]
    assert smoothed(line, 3)[3:-3] == pytest.approx(line[3:-3])
    assert smoothed([0.0, 10.0], 0) == [0.0, 10.0]


def test_the_best_epoch_is_the_last_that_was_better() -> None:
    made = curves(log_lines(300, 3), "Accuracy")
    assert made is not None
    assert [epoch.best for epoch in made.epochs] == [False, True, False]
    assert [epoch.steps for epoch in made.epochs] == [100, 100, 100]
    assert made.epochs[0].loss == pytest.approx(sum(line["loss"] for line in log_lines()[:100]) / 100)
    assert "epoch 2 is the best" in made.figures[2].caption


def test_a_resumed_log_may_come_in_any_order() -> None:
    ordered = curves(log_lines(60), None)
    assert curves(log_lines(60)[::-1], None) == ordered


WILD = st.one_of(st.none(), st.booleans(), st.text(max_size=3), st.integers(), st.floats())


@given(st.lists(st.dictionaries(st.sampled_from(["step", "epoch", "loss", "rate", "score", "best"]), WILD), max_size=8))
def test_no_log_breaks_the_page(log: list[dict[str, object]]) -> None:
    made = curves(log, "Accuracy")
    if made is not None:
        assert all("nan" not in str(figure.svg) for figure in made.figures)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.91234, "0.912"),
        (1.0, "1.000"),
        (0.99996, ">0.999"),
        (0, "0.000"),
        (-0.25, "−0.250"),
        (12.345, "12.35"),
        (432.19, "432.2"),
        (12345.6, "12,346"),
        (5e-5, "5e-5"),
        (-4.2e-7, "−4.2e-7"),
        (9.99e-5, "1e-4"),
        (3e9, "3e9"),
        (math.nan, UNKNOWN),
        (math.inf, UNKNOWN),
        (None, UNKNOWN),
        ("5", UNKNOWN),
        (True, UNKNOWN),
        (10**400, UNKNOWN),
    ],
)
def test_figures(value: object, said: str) -> None:
    assert figure(value) == said


def test_shares_do_not_round_to_all_or_nothing() -> None:
    assert [percent(value) for value in (0, 0.0001, 0.5, 0.9999, 1)] == ["0%", "<0.1%", "50.0%", ">99.9%", "100%"]
    assert percent(math.nan) == UNKNOWN


@given(NUMBERS.filter(bool))
def test_exponents_are_the_number(value: float) -> None:
    assert float(exponent(value, 4)) == pytest.approx(value, rel=1e-3)


def test_times() -> None:
    said = [duration(seconds) for seconds in (0.123, 1.25, 61.5, 130, 7300, None)]
    assert said == ["0.12 s", "1.2 s", "62 s", "2 min", "2 h 2 min", UNKNOWN]


def test_texts() -> None:
    assert cut("", 10) == cut(" \n", 10) == "(empty)"
    assert cut("abcdef", 4) == "abc…"
    assert lines("a\u202eb\nc\x00") == "a\\u202eb\nc\\u0000"
    assert known(10**400) is None
    nested = {"a": {"b": 1, "c": {}}, "d": [1, 2.5, None], "e": True, "rate": 2e-5, "big": 123456, "decay": 0.01}
    assert dict(flat(nested)) == {
        "a · b": "1",
        "a · c": "{}",
        "d": "1, 2.5, none",
        "e": "yes",
        "rate": "2e-5",
        "big": "123,456",
        "decay": "0.01",
    }
