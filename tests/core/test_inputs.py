"""Invalid input arrays: each error states what was expected and what was passed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from clearhead import Model
from clearhead.errors import InputError
from tests.core.networks import model_of

IDS = [[5, 6, 7], [8, 9, 0]]


@pytest.fixture(scope="module")
def bert() -> Model:
    return model_of("bert", max_position_embeddings=8)


@pytest.fixture(scope="module")
def marian() -> Model:
    return model_of("marian", share_encoder_decoder_embeddings=False, decoder_vocab_size=20)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"ids": [[5, 6], [7]]}, "ids has rows of different lengths; pad them and pass a mask"),
        ({"ids": [[5.0, 6.5]]}, "ids must be integers, got float64"),
        ({"ids": [["a", "b"]]}, "ids must be integers, got <U1"),
        ({"ids": [5, 6]}, r"ids must have shape \(batch, length\), got 1 dimensions: \(2,\)"),
        ({"ids": [[[5]]]}, r"ids must have shape \(batch, length\), got 3 dimensions: \(1, 1, 1\)"),
        ({"ids": np.zeros((0, 3), int)}, "ids is empty: 0 rows of 3 tokens"),
        ({"ids": np.zeros((2, 0), int)}, "ids is empty: 2 rows of 0 tokens"),
        ({"ids": [[]]}, "ids is empty: 1 row of 0 tokens"),
        ({"ids": [[5, 6], [7, 60]]}, r"ids\[1, 1\] is 60, but the vocabulary has 60 tokens \(0 to 59\)"),
        ({"ids": [[5, -1], [7, 70]]}, r"ids\[0, 1\] is -1, but the vocabulary has 60 tokens"),
        (
            {"ids": [[5] * 9]},
            "ids has 9 tokens per row, but the model has 8 positions; shorten the texts or split them",
        ),
        ({"ids": IDS, "mask": [["y", "y", "n"]] * 2}, "mask must be true or false for each token, got <U1"),
        ({"ids": IDS, "mask": [[1, 1]] * 2}, r"mask must have shape \(2, 3\) like its ids, got \(2, 2\)"),
        ({"ids": IDS, "mask": [[1, 1, 1], [1]]}, "mask has rows of different length"),
        ({"ids": IDS, "mask": [1, 1]}, r"mask must have shape \(2, 3\) like its ids, got \(2,\)"),
        (
            {"ids": IDS, "mask": [[0, 0, -1e9]] * 2},
            "mask must be 1 for real tokens and 0 for padding, got other values",
        ),
        ({"ids": IDS, "mask": [[1, 2, 0]] * 2}, "mask must be 1 for real tokens and 0 for padding, got other values"),
        ({"ids": IDS, "segments": [[0, 1, 0], [0]]}, "segments has rows of different length"),
        ({"ids": IDS, "segments": [[0, 1]] * 2}, r"segments must have shape \(2, 3\) like ids, got \(2, 2\)"),
        ({"ids": IDS, "segments": [[0, 1, 2]] * 2}, "segments contains 2, expected 0 to 1"),
        ({"ids": IDS, "segments": [[0, 1, -1]] * 2}, "segments contains -1, expected 0 to 1"),
        ({"ids": IDS, "segments": [[0.5, 1, 1]] * 2}, "segments must be integers"),
        ({"ids": IDS, "target_mask": IDS}, "target_mask was given without target_ids"),
        ({"ids": IDS, "target_ids": IDS}, "target_ids require a model with a decoder, but this bert has none"),
    ],
)
def test_one_stack(bert: Model, inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bert.run(**inputs)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"target_ids": [[5], [6], [7]]}, "ids has 2 rows and target_ids has 3"),
        ({"target_ids": [[5, 20], [6, 7]]}, r"target_ids\[0, 1\] is 20, but the vocabulary has 20 tokens \(0 to 19\)"),
        ({"target_ids": [5, 6]}, r"target_ids must have shape \(batch, length\)"),
        (
            {"target_ids": [[5], [6]], "target_mask": [[1, 1], [1, 0]]},
            r"target_mask must have shape \(2, 1\) like its ids",
        ),
        ({"target_ids": [[5], [6]], "target_mask": [[3], [1]]}, "target_mask must be 1 for real tokens"),
    ],
)
def test_pairs(marian: Model, inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        marian.run(IDS, **inputs)


def test_choices() -> None:
    model = model_of("bert", "choice")
    ids = np.array([IDS, IDS])  # (questions, choices, length)
    out = model.run(ids, np.ones_like(ids), np.zeros_like(ids))
    assert out.logits is not None
    assert out.logits.shape == (2, 2)
    flat_logits = model.run(ids.reshape(4, 3)).logits
    np.testing.assert_allclose(flat_logits.reshape(2, 2), out.logits, atol=1e-6)  # type: ignore[union-attr]
    with pytest.raises(InputError, match=r"must have shape \(2, 2, 3\) like ids, got \(2, 3\)"):
        model.run(ids, np.ones((2, 3), int))
    with pytest.raises(InputError, match=r"must have shape \(2, 2, 3\) like ids, got \(4, 3\)"):
        model.run(ids, None, np.zeros((4, 3), int))
    with pytest.raises(InputError, match="mask or segments has rows of different length"):
        model.run(ids, [[[1, 1, 1], [1]]] * 2)
    with pytest.raises(InputError, match="segments must be integers, got float64"):
        model.run(ids, None, np.full(ids.shape, 0.5))
    np.testing.assert_array_equal(model.run(ids, np.ones(ids.shape)).logits, out.logits)
    with pytest.raises(InputError, match="got 3 dimensions"):
        model_of("bert", "classify").run(ids)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.int16])
def test_whole_numbers_of_any_width(bert: Model, kind: Any) -> None:
    expected = bert.run(IDS).last
    np.testing.assert_array_equal(bert.run(np.array(IDS, kind)).last, expected)
    np.testing.assert_array_equal(bert.run(torch.tensor(IDS)).last, expected)
    np.testing.assert_array_equal(bert.run(np.array(IDS, kind)[:, ::-1][:, ::-1]).last, expected)


@pytest.mark.parametrize("kind", [bool, int, float, np.float32])
def test_masks_of_any_kind(bert: Model, kind: Any) -> None:
    mask = np.array([[1, 1, 1], [1, 1, 0]])
    expected = bert.run(IDS, mask.astype(bool)).last
    np.testing.assert_array_equal(bert.run(IDS, mask.astype(kind)).last, expected)
    np.testing.assert_array_equal(bert.run(IDS, torch.tensor(mask.astype(kind))).last, expected)


def test_what_the_caller_gave_is_not_changed(bert: Model) -> None:
    ids, mask = np.array(IDS), np.array([[1, 1, 1], [1, 1, 0]])
    copies = ids.copy(), mask.copy()
    bert.run(ids, mask)
    np.testing.assert_array_equal(ids, copies[0])
    np.testing.assert_array_equal(mask, copies[1])


def test_segments_of_a_model_without_them() -> None:
    """Its tokenizer still returns segments, so they are accepted and ignored."""
    model = model_of("distilbert")
    for segments in ([[0, 0, 0]] * 2, [[0, 1, 1]] * 2):
        np.testing.assert_array_equal(model.run(IDS, segments=segments).last, model.run(IDS).last)
    with pytest.raises(InputError, match="segments must have shape"):
        model.run(IDS, segments=[[0, 1]] * 2)


def test_as_long_as_the_positions_and_no_longer(bert: Model) -> None:
    assert bert.run([[5] * 8]).last is not None
    roberta = model_of("roberta", max_position_embeddings=8)  # two are taken by the numbering from pad + 1
    assert roberta.run([[5] * 6]).last is not None
    with pytest.raises(InputError, match="the model has 6 positions"):
        roberta.run([[5] * 7])
    free = model_of("t5")
    assert free.run([[5] * 700]).last is not None
