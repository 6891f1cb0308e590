"""Slices: every row in exactly one, worst first, small ones flagged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.metrics import accuracy, bootstrap, mse, proportion, roc_auc, slice_table
from clearhead.metrics.slices import split_column

CELL = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.integers(-50, 50),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.lists(st.integers(0, 3), max_size=2),
)


@given(st.lists(CELL, min_size=1, max_size=60), st.integers(1, 6), st.integers(1, 6))
def test_every_row_is_in_one_slice(values: list[Any], top: int, bins: int) -> None:
    slices = list(split_column(values, top, bins))
    assert sorted(row for _, rows in slices for row in rows.tolist()) == list(range(len(values)))
    names = [name for name, _ in slices]
    assert len(set(names)) == len(names)
    assert len(slices) <= max(top + 1, bins) + 1


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=60, unique=True), st.integers(1, 6))
def test_numbers_are_cut_into_equal_parts(values: list[float], bins: int) -> None:
    slices = list(split_column(values, 0, bins))
    assert len(slices) <= bins
    assert max(len(rows) for _, rows in slices) - min(len(rows) for _, rows in slices) <= 1 or len(values) < bins


def test_the_worst_comes_first_and_the_small_last() -> None:
    source = ["mail"] * 50 + ["chat"] * 40 + ["fax"] * 3
    is_correct = [True] * 45 + [False] * 5 + [True] * 20 + [False] * 20 + [False] * 3
    slices = slice_table({"source": source}, proportion, is_correct)
    assert [(s.column, s.name, s.rows, s.value, s.small) for s in slices] == [
        ("source", "chat", 40, 0.5, False),
        ("source", "mail", 50, 0.9, False),
        ("source", "fax", 3, 0.0, True),
    ]
    assert slices[0].interval == bootstrap(proportion, is_correct[50:90])
    assert slices[2].interval.method == "wilson"
    assert slice_table({"source": source}, proportion, is_correct, min_rows=1)[0].name == "fax"


def test_lengths_become_ranges() -> None:
    lengths = np.arange(1, 201)
    labels = np.ones(200, int)
    slices = slice_table({"length": lengths.tolist()}, accuracy, labels, (lengths <= 150).astype(int))
    assert [(s.name, s.rows, s.value) for s in slices] == [
        ("151 to 200", 50, 0.0),
        ("1 to 50", 50, 1.0),
        ("51 to 100", 50, 1.0),
        ("101 to 150", 50, 1.0),
    ]
    star_slices = slice_table({"stars": (lengths % 5).tolist()}, accuracy, labels, labels)
    assert sorted(s.name for s in star_slices) == ["0", "1", "2", "3", "4"]


def test_rare_and_empty_cells_have_their_slices() -> None:
    values = ["a"] * 5 + ["b"] * 4 + ["c", "d", "e"] + [None, "", math.nan]
    slices = slice_table({"x": values}, proportion, [True] * 15, top=2)
    assert {s.name: s.rows for s in slices} == {"a": 5, "b": 4, "(3 other values)": 3, "(empty)": 3}
    assert {s.name for s in slice_table({"x": ["a", "b", "c"]}, proportion, [1, 1, 1], top=2)} == {"a", "b", "c"}


def test_errors_are_worst_when_high_and_nothing_known_is_last() -> None:
    source = ["a"] * 30 + ["b"] * 30
    error_slices = slice_table({"x": source}, mse, np.zeros(60), np.repeat([1.0, 3.0], 30), lower_is_worse=False)
    assert [s.name for s in error_slices] == ["b", "a"]
    labels = np.array([1] * 30 + [0, 1] * 15)
    area_slices = slice_table({"x": source}, roc_auc, labels, np.linspace(0, 1, 60), n=50)
    assert [s.name for s in area_slices] == ["b", "a"]
    assert math.isnan(area_slices[1].value)
    assert area_slices[0].value == pytest.approx(roc_auc(labels[30:], np.linspace(0, 1, 60)[30:]))
