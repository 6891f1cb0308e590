"""The best sequence of tags against every sequence that there is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.tasks.ragged import RaggedArray, compute_bounds, concat_parts, to_ragged
from clearhead.tasks.tag.sequences import decode_best_tags
from tests.variation import scaled

BIO = ("O", "B-X", "I-X", "B-Y", "I-Y")
INSIDE = ("O", "I-X", "I-Y")
BILOU = ("O", "B-X", "I-X", "L-X", "U-X", "U-Y")
IOBES = ("S-X", "E-X", "O", "I-X", "B-X")
PLAIN = ("NOUN", "VERB", "O")


def valid(tags: tuple[str, ...], *, ends: bool) -> bool:
    """By the words of each scheme's definition; `ends`: it has letters for the end of an entity."""
    before = "O"
    for tag in (*tags, "O"):
        begun = before[:2] in ("B-", "I-")
        goes_on = tag[:2] in ("I-", "L-", "E-")
        if goes_on and not (begun and before[2:] == tag[2:]):
            return False
        if ends and begun and not goes_on:
            return False
        before = tag
    return True


@pytest.mark.parametrize("names", [BIO, BILOU, IOBES])
@settings(max_examples=scaled(60), deadline=None)
@given(data=st.data())
def test_it_is_the_best_of_all_that_may_be(names: tuple[str, ...], data: st.DataObject) -> None:
    ends = any(name[:2] in ("L-", "E-") for name in names)
    counts = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    seed = data.draw(st.integers(0, 2**31))
    scores = np.random.default_rng(seed).normal(size=(sum(counts), len(names)))
    found = decode_best_tags(RaggedArray(values=scores, bounds=compute_bounds(counts)), names)
    for place, count in enumerate(counts):
        own = scores[found.bounds[place] : found.bounds[place + 1]]
        every = [
            ids
            for ids in product(range(len(names)), repeat=count)
            if valid(tuple(names[one] for one in ids), ends=ends)
        ]
        best = max(every, key=lambda ids: sum(own[at, one] for at, one in enumerate(ids)))
        assert found.row(place).tolist() == list(best)


@pytest.mark.parametrize(("names", "lenient"), [(INSIDE, False), (PLAIN, False), (BIO, True)])
def test_where_everything_may_follow_each_word_is_for_itself(names: tuple[str, ...], lenient: bool) -> None:
    scores = np.random.default_rng(1).normal(size=(40, len(names)))
    found = decode_best_tags(RaggedArray(values=scores, bounds=compute_bounds([10, 0, 30])), names, lenient=lenient)
    assert found.values.tolist() == scores.argmax(1).tolist()


def test_many_rows_of_any_length_are_decoded_in_their_order() -> None:
    draw = np.random.default_rng(2)
    counts = draw.integers(0, 30, 400)
    scores = draw.normal(size=(int(counts.sum()), len(BIO)))
    every = decode_best_tags(RaggedArray(values=scores, bounds=compute_bounds(counts)), BIO)
    for place in range(0, 400, 37):
        one = scores[every.bounds[place] : every.bounds[place + 1]]
        alone = decode_best_tags(RaggedArray(values=one, bounds=compute_bounds([len(one)])), BIO)
        assert alone.values.tolist() == every.row(place).tolist()


def test_ragged_rows_can_be_chosen_joined_and_padded() -> None:
    rows = [[1, 2, 3], [], [4], [5, 6]]
    made = to_ragged(rows, "int32")
    assert [row.tolist() for row in made] == rows
    assert [row.tolist() for row in made[np.array([3, 0, 1])]] == [[5, 6], [1, 2, 3], []]
    assert [row.tolist() for row in concat_parts([made, made[np.array([2])]])] == [*rows, [4]]
    assert made.to_padded(-1).tolist() == [[1, 2, 3], [-1, -1, -1], [4, -1, -1], [5, 6, -1]]
    assert made.row_indices.tolist() == [0, 0, 0, 2, 3, 3]
