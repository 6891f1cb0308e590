"""Numbers are rounded without overstatement, and invisible characters are escaped."""

from __future__ import annotations

import math

import pytest

from clearhead.report.formatting import (
    UNKNOWN,
    escape_lines,
    finite_number,
    flatten_settings,
    format_duration,
    format_figure,
    format_percent,
    truncate,
)


@pytest.mark.parametrize(
    ("value", "figure"),
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
def test_figures(value: object, figure: str) -> None:
    assert format_figure(value) == figure


def test_percentages_do_not_round_to_0_or_100() -> None:
    assert [format_percent(value) for value in (0, 0.0001, 0.5, 0.9999, 1)] == [
        "0%",
        "<0.1%",
        "50.0%",
        ">99.9%",
        "100%",
    ]
    assert format_percent(math.nan) == UNKNOWN


def test_times() -> None:
    durations = [format_duration(seconds) for seconds in (0.123, 1.25, 61.5, 130, 7300, None)]
    assert durations == ["0.12 s", "1.2 s", "62 s", "2 min", "2 h 2 min", UNKNOWN]


def test_texts() -> None:
    assert truncate("", 10) == truncate(" \n", 10) == "(empty)"
    assert truncate("abcdef", 4) == "abc…"
    assert escape_lines("a\u202eb\nc\x00") == "a\\u202eb\nc\\u0000"
    assert finite_number(10**400) is None
    nested = {"a": {"b": 1, "c": {}}, "d": [1, 2.5, None], "e": True, "rate": 2e-5, "big": 123456, "decay": 0.01}
    assert dict(flatten_settings(nested)) == {
        "a · b": "1",
        "a · c": "{}",
        "d": "1, 2.5, none",
        "e": "yes",
        "rate": "2e-5",
        "big": "123,456",
        "decay": "0.01",
    }
