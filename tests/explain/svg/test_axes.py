"""Axes contain their values, and tick labels are legible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.explain.svg import format_exponent, format_tick, head_color, index_axis, linear_axis, log_axis

NUMBERS = st.floats(-1e20, 1e20).filter(lambda value: value == 0 or abs(value) > 1e-20)


@given(st.lists(NUMBERS, min_size=1, max_size=20), st.booleans())
def test_an_axis_holds_its_values(values: list[float], zero: bool) -> None:
    axis = linear_axis(values, "x", zero=zero)
    tolerance = (axis.high - axis.low) * 1e-6
    assert axis.low - tolerance <= min(values)
    assert max(values) <= axis.high + tolerance
    assert axis.low < axis.high
    assert 2 <= len(axis.ticks) <= 9
    texts = [format_tick(tick, axis.ticks) for tick in axis.ticks]
    if min(map(abs, values)) > 1e-3 * (max(values) - min(values)):
        assert all(texts)
    assert not zero or min(values) < 0 or axis.low == 0


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=5))
def test_steps_are_marked_where_they_fall(steps: list[int]) -> None:
    axis = index_axis(min(steps), max(steps), "step")
    assert axis.low < axis.high
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks)


def test_ticks_read_well() -> None:
    ticks = linear_axis([0.0, 5e-5], "rate", zero=True).ticks
    assert [format_tick(tick, ticks) for tick in ticks] == ["0", "1e-5", "2e-5", "3e-5", "4e-5", "5e-5"]
    ticks = linear_axis([0.81, 0.93], "score").ticks
    assert [format_tick(tick, ticks) for tick in ticks] == ["0.80", "0.85", "0.90", "0.95"]
    ticks = index_axis(1, 100_000, "step").ticks
    assert [format_tick(tick, ticks) for tick in ticks] == ["20k", "40k", "60k", "80k", "100k"]
    ticks = linear_axis([-0.3, 1.0], "r").ticks
    assert [format_tick(tick, ticks) for tick in ticks] == ["−0.5", "0", "0.5", "1.0"]


def test_an_axis_of_powers() -> None:
    axis = log_axis([0.05, 21.0], "ms")
    assert (axis.low, axis.high) == (0.01, 100.0)
    assert axis.ticks == (0.01, 0.1, 1.0, 10.0, 100.0)
    assert axis.fraction(1.0) == pytest.approx(0.5)
    assert log_axis([1.0], "ms").high == 10.0
    assert len(log_axis([1e-9, 1e9], "ms").ticks) <= 8


@given(NUMBERS.filter(bool))
def test_formatted_exponents_parse_back(value: float) -> None:
    assert float(format_exponent(value, 4)) == pytest.approx(value, rel=1e-3)


def test_heads_differ_in_color() -> None:
    for dark in (False, True):
        assert len({head_color(head, dark_page=dark) for head in range(32)}) == 32
