"""The runner's results do not depend on the module's mode, and its errors are clear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.batch import Batch
from clearhead.errors import InputError

SIZES: dict[str, Any] = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
SIZES |= {"intermediate_size": 8, "vocab_size": 30}
GPT = {"n_embd": 12, "n_layer": 2, "n_head": 3, "vocab_size": 30, "n_positions": 8}


def test_an_answer_is_never_a_matter_of_dropout() -> None:
    model = clearhead.create("bert", config=SIZES | {"hidden_dropout_prob": 0.5})
    still = model.run([[5, 6, 7]]).last
    model.module.train()
    np.testing.assert_array_equal(model.run([[5, 6, 7]]).last, still)
    assert model.module.training
    noisy = model.module(torch.tensor([[5, 6, 7]])).last.detach().numpy()
    assert np.abs(noisy - still).max() > 0.1


def test_pruned_heads_are_not_counted() -> None:
    model = clearhead.create("bert", config=SIZES)
    before = model.parameters
    model.prune({0: [1]})
    width, head = 12, 4
    assert before - model.parameters == 3 * head * (width + 1) + head * width


def test_steps_that_cannot_be_taken() -> None:
    batch = Batch(ids=np.array([[5]]))
    encoder = clearhead.create("bert", config=SIZES, head="masked").runner
    with pytest.raises(InputError, match="cannot generate token by token"):
        encoder.step(encoder.start(batch), [[5]])
    gpt = clearhead.create("gpt2", config=GPT, head="causal").runner
    state = gpt.start(batch)
    invalid_ids: Any
    for invalid_ids in ([[30]], [[-1]], [5], [[]]):
        with pytest.raises(InputError, match="token ids from 0 to 29"):
            gpt.step(state, invalid_ids)
    logits, _ = gpt.step(state, [[5, 6]])
    assert logits.shape == (1, 2, 30)
    with pytest.raises(InputError, match="has 8 positions"):
        gpt.step(state, [[5] * 9])


@pytest.mark.parametrize("lengths", [[2, 2], [3, 0], [4, -1], [1, 1, 2]])
def test_lengths_that_do_not_fit(lengths: list[int]) -> None:
    network = clearhead.create("bert", config=SIZES).module
    with pytest.raises(InputError, match="sum to 3"):
        network(torch.tensor([5, 6, 7]), lengths=torch.tensor(lengths))
