"""Splits are stratified, seeded, and keep together what belongs together."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import split_from_column, split_rows
from clearhead.errors import InputError


def make_hashes(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2**63, count).astype(np.uint64)


def test_shares_and_strata() -> None:
    labels = np.array([0] * 700 + [1] * 200 + [2] * 100)
    parts = split_rows(labels, make_hashes(1000), dev=0.1, test=0.2, seed=3)
    assert Counter(parts.tolist()) == {"train": 700, "dev": 100, "test": 200}
    for label, count in enumerate((700, 200, 100)):
        assert Counter(parts[labels == label].tolist()) == {
            "train": count * 7 // 10,
            "dev": count // 10,
            "test": count // 5,
        }
    assert (parts == split_rows(labels, make_hashes(1000), dev=0.1, test=0.2, seed=3)).all()
    assert (parts != split_rows(labels, make_hashes(1000), dev=0.1, test=0.2, seed=4)).any()
    assert set(split_rows(labels, make_hashes(1000), dev=0.1, test=0).tolist()) == {"train", "dev"}


def test_numbers_and_several_labels() -> None:
    values = np.random.default_rng(1).normal(size=1000)
    parts = split_rows(values, make_hashes(1000), kind="number")
    for low in np.quantile(values, np.linspace(0, 0.9, 10)):
        assert (parts[values >= low] == "dev").sum() >= 5
    assert abs(values[parts == "dev"].mean() - values.mean()) < 0.15
    table = (np.random.default_rng(2).random((1000, 5)) < [0.5, 0.3, 0.2, 0.05, 0.02]).astype(np.uint8)
    parts = split_rows(table, make_hashes(1000), kind="multilabel")
    for index in range(5):
        share = table[parts == "dev", index].sum() / table[:, index].sum()
        assert 0.02 < share < 0.25


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=80),
    seed=st.integers(0, 5),
    grouped=st.booleans(),
    kind=st.sampled_from(["classes", "number"]),
)
def test_what_is_the_same_never_straddles(
    rows: list[tuple[int, int, int]], seed: int, grouped: bool, kind: str
) -> None:
    labels, texts, groups = (np.array(column) for column in zip(*rows, strict=True))
    group_ids = groups if grouped else None
    parts = split_rows(labels, texts, group_ids, seed=seed, kind=kind)
    for same in (texts, groups) if grouped else (texts,):
        for value in set(same.tolist()):
            assert len(set(parts[same == value].tolist())) == 1
    order = np.random.default_rng(seed).permutation(len(rows))  # the order of rows does not matter
    again = split_rows(
        labels[order], texts[order], None if group_ids is None else group_ids[order], seed=seed, kind=kind
    )
    assert (again == parts[order]).all()
    assert "train" in parts


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60))
def test_every_class_is_trained_on(labels: list[int]) -> None:
    parts = split_rows(labels, np.arange(len(labels)))
    assert {label for label, part in zip(labels, parts, strict=True) if part == "train"} == set(labels)
    if len(set(labels)) <= len(labels) - 2:
        assert (parts != "train").any()


def test_large_groups_still_give_a_dev_part() -> None:
    groups = np.repeat(np.arange(5), 40)
    parts = split_rows(np.tile([0, 1], 100), np.arange(200), groups)
    assert Counter(parts.tolist()) == {"train": 120, "dev": 40, "test": 40}
    many = np.repeat(np.arange(200), 5)
    counts = Counter(split_rows(np.tile(np.arange(10), 100), np.arange(1000), many).tolist())
    assert abs(counts["dev"] - 100) <= 5
    assert abs(counts["test"] - 100) <= 5


def test_a_million_rows() -> None:
    parts = split_rows(np.arange(1_000_000) % 7, make_hashes(1_000_000))
    assert Counter(parts.tolist()) == {"train": 800_000, "dev": 100_000, "test": 100_000}


def test_from_a_column() -> None:
    assert split_from_column(["train", "Validation", "TEST", "val", " dev"]).tolist() == [
        "train",
        "dev",
        "test",
        "dev",
        "dev",
    ]
    with pytest.raises(InputError, match="contains 1, other"):
        split_from_column(["train", "other", 1])


def test_what_cannot_be_split() -> None:
    with pytest.raises(InputError, match="sum below 1"):
        split_rows([0], [0], dev=0.5, test=0.5)
    with pytest.raises(InputError, match="no rows"):
        split_rows([], [])
    with pytest.raises(InputError, match="labels and texts must have the same length, got 2 and 1"):
        split_rows([0, 1], [0])
    with pytest.raises(InputError, match="kind='x'"):
        split_rows([0], [0], kind="x")
