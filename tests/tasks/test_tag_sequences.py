"""The best tag sequence equals that of an exhaustive search."""

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


def is_valid(tags: tuple[str, ...], *, ends: bool) -> bool:
    """Whether a sequence is valid by the definition of its scheme; `ends`: the scheme marks ends of entities."""
    previous = "O"
    for tag in (*tags, "O"):
        is_open = previous[:2] in ("B-", "I-")
        is_inside = tag[:2] in ("I-", "L-", "E-")
        if is_inside and not (is_open and previous[2:] == tag[2:]):
            return False
        if ends and is_open and not is_inside:
            return False
        previous = tag
    return True


@pytest.mark.parametrize("names", [BIO, BILOU, IOBES])
@settings(max_examples=scaled(60), deadline=None)
@given(data=st.data())
def test_the_best_valid_sequence_is_found(names: tuple[str, ...], data: st.DataObject) -> None:
    ends = any(name[:2] in ("L-", "E-") for name in names)
    counts = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    seed = data.draw(st.integers(0, 2**31))
    scores = np.random.default_rng(seed).normal(size=(sum(counts), len(names)))
    decoded = decode_best_tags(RaggedArray(values=scores, bounds=compute_bounds(counts)), names)
    for row, count in enumerate(counts):
        row_scores = scores[decoded.bounds[row] : decoded.bounds[row + 1]]
        valid_sequences = [
            ids
            for ids in product(range(len(names)), repeat=count)
            if is_valid(tuple(names[tag] for tag in ids), ends=ends)
        ]
        best = max(valid_sequences, key=lambda ids: sum(row_scores[word, tag] for word, tag in enumerate(ids)))
        assert decoded.row(row).tolist() == list(best)


@pytest.mark.parametrize(("names", "lenient"), [(INSIDE, False), (PLAIN, False), (BIO, True)])
def test_without_constraints_words_are_independent(names: tuple[str, ...], lenient: bool) -> None:
    scores = np.random.default_rng(1).normal(size=(40, len(names)))
    decoded = decode_best_tags(RaggedArray(values=scores, bounds=compute_bounds([10, 0, 30])), names, lenient=lenient)
    assert decoded.values.tolist() == scores.argmax(1).tolist()


def test_many_rows_of_any_length_are_decoded_in_their_order() -> None:
    generator = np.random.default_rng(2)
    counts = generator.integers(0, 30, 400)
    scores = generator.normal(size=(int(counts.sum()), len(BIO)))
    decoded = decode_best_tags(RaggedArray(values=scores, bounds=compute_bounds(counts)), BIO)
    for row in range(0, 400, 37):
        row_scores = scores[decoded.bounds[row] : decoded.bounds[row + 1]]
        decoded_row = decode_best_tags(RaggedArray(values=row_scores, bounds=compute_bounds([len(row_scores)])), BIO)
        assert decoded_row.values.tolist() == decoded.row(row).tolist()


def test_ragged_rows_can_be_selected_joined_and_padded() -> None:
    rows = [[1, 2, 3], [], [4], [5, 6]]
    ragged = to_ragged(rows, "int32")
    assert [row.tolist() for row in ragged] == rows
    assert [row.tolist() for row in ragged[np.array([3, 0, 1])]] == [[5, 6], [1, 2, 3], []]
    assert [row.tolist() for row in concat_parts([ragged, ragged[np.array([2])]])] == [*rows, [4]]
    assert ragged.to_padded(-1).tolist() == [[1, 2, 3], [-1, -1, -1], [4, -1, -1], [5, 6, -1]]
    assert ragged.row_indices.tolist() == [0, 0, 0, 2, 3, 3]
