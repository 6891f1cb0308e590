"""Every row once an epoch, little padding, and the same batches for the same seed and epoch."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import token_batches
from clearhead.errors import InputError

LENGTHS = st.lists(st.integers(0, 600), max_size=300)


@given(
    lengths=LENGTHS,
    budget=st.integers(1, 2000),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 9),
    max_rows=st.none() | st.integers(1, 20),
    shuffle=st.booleans(),
    bucket=st.integers(1, 9),
)
def test_budgets(
    lengths: list[int], budget: int, seed: int, epoch: int, max_rows: int | None, shuffle: bool, bucket: int
) -> None:
    def batches_of(epoch_number: int) -> list[list[int]]:
        batches = token_batches(
            lengths,
            budget_tokens=budget,
            seed=seed,
            epoch=epoch_number,
            max_rows=max_rows,
            shuffle=shuffle,
            bucket=bucket,
        )
        return [batch.tolist() for batch in batches]

    batches = batches_of(epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or longest * len(batch) <= budget
        assert max_rows is None or len(batch) <= max_rows
    assert batches == batches_of(epoch)


@given(lengths=LENGTHS, rows=st.integers(1, 40), seed=st.integers(0, 9), bucket=st.integers(1, 9))
def test_rows(lengths: list[int], rows: int, seed: int, bucket: int) -> None:
    batches = token_batches(lengths, rows=rows, seed=seed, bucket=bucket)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert sum(len(batch) != rows for batch in batches) <= 1


def test_seed_and_epoch_change_the_batches() -> None:
    lengths = np.random.default_rng(0).integers(5, 60, 1000)
    orders = set()
    for seed, epoch in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0)):
        batches = token_batches(lengths, budget_tokens=512, seed=seed, epoch=epoch)
        orders.add(tuple(tuple(batch.tolist()) for batch in batches))
    assert len(orders) == 5
    first = token_batches([3, 1, 2, 5, 4, 9], rows=2, seed=1, bucket=1)
    assert [batch.tolist() for batch in first] == FIXED  # for ever: a resumed run must see the same


FIXED = [[1, 3], [4, 5], [2, 0]]


def test_a_million_rows_are_batched_at_once_with_little_padding() -> None:
    lengths = np.random.default_rng(0).geometric(0.05, 1_000_000) + 2
    started = time.process_time()
    batches = token_batches(lengths, budget_tokens=4096)
    assert time.process_time() - started < 20  # a second; hours if it were quadratic
    padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
    assert lengths.sum() / padded > 0.97
    order = np.concatenate(batches)
    assert abs(np.corrcoef(order, np.arange(len(order)))[0, 1]) < 0.02  # still well shuffled
    assert abs(np.corrcoef([lengths[batch].mean() for batch in batches], np.arange(len(batches)))[0, 1]) < 0.05


def test_without_shuffle_the_longest_come_first() -> None:
    batches = token_batches([5, 9, 1, 9], budget_tokens=18, shuffle=False)
    assert [batch.tolist() for batch in batches] == [[1, 3], [0, 2]]
    assert token_batches([], rows=3) == []


def test_what_makes_no_batches() -> None:
    for options in ({}, {"rows": 1, "budget_tokens": 1}, {"rows": 0}, {"budget_tokens": -5}, {"rows": 2, "bucket": 0}):
        with pytest.raises(InputError):
            token_batches([1, 2], **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="must not be negative"):
        token_batches([-1], rows=1)
