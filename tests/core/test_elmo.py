"""ELMo: two directions that never see each other, padded and packed alike, and both learn a planted text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import clearhead
from clearhead import Model
from clearhead.core.elmo import ElmoNetwork, elmo_losses, elmo_states
from clearhead.errors import InputError

SMALL: dict[str, Any] = {"vocab_size": 20, "width": 12, "layers": 3}
IDS = [[3, 4, 5, 6, 7], [8, 9, 3, 0, 0], [5, 0, 0, 0, 0]]
MASK = [[1] * 5, [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def model(request: pytest.FixtureRequest) -> Model:
    config = SMALL | {"tie_word_embeddings": request.param, "residual": request.param}
    return clearhead.create("elmo", config=config, head="bilm", seed=2)


def by_hand(model: Model, ids: list[int]) -> list[Tensor]:
    """Every layer of one text, word by word, with torch's own cells."""
    words = torch.from_numpy(model.tensor("stack.embed.token.weight"))[ids]
    hidden = [torch.cat([words, words], -1)]
    ways = {"forth": words, "back": words}
    for layer in range(model.shape.stack.layers):
        for way, x in ways.items():
            cell = torch.nn.LSTMCell(6, 6)
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                value = torch.from_numpy(model.tensor(f"stack.layers.{layer}.{way}.{kind}_l0"))
                setattr(cell, kind, torch.nn.Parameter(value))
            state, made = None, [torch.zeros(6)] * len(ids)
            order = range(len(ids)) if way == "forth" else reversed(range(len(ids)))
            for place in order:
                state = cell(x[place], state)
                added = x[place] if layer and model.config["residual"] else 0
                made[place] = state[0] + added
            ways[way] = torch.stack(made).detach()
        hidden.append(torch.cat([ways["forth"], ways["back"]], -1))
    return hidden


def test_every_layer_is_what_the_paper_says(model: Model) -> None:
    out = model.run(IDS, MASK)
    assert len(out.hidden) == 4
    for row, (ids, mask) in enumerate(zip(IDS, MASK, strict=True)):
        count = sum(mask)
        for found, expected in zip(out.hidden, by_hand(model, ids[:count]), strict=True):
            np.testing.assert_allclose(found[row, :count], expected.numpy(), atol=1e-6)


def test_padding_and_neighbours_change_nothing(model: Model) -> None:
    out = model.run(IDS, MASK)
    assert out.logits is not None
    assert out.logits.shape == (3, 5, 2, 20)
    packed = model.core.packed([3, 4, 5, 6, 7, 8, 9, 3, 5], None, [5, 3, 1])
    left = model.run([[0, 0, 8, 9, 3]], [[0, 0, 1, 1, 1]])
    other = model.run([[8, 9, 3, 11, 12]], [[1, 1, 1, 0, 0]])
    alone = model.run([[8, 9, 3]])
    assert alone.logits is not None
    for found in (out.logits[1, :3], packed[5:8], left.logits[0, 2:], other.logits[0, :3]):  # type: ignore[index]
        np.testing.assert_allclose(found, alone.logits[0], atol=1e-6)


def test_the_two_directions_never_see_each_other(model: Model) -> None:
    before, after = (model.run([[3, 4, word, 6, 7]]) for word in (5, 11))
    assert before.logits is not None
    assert after.logits is not None
    moved = np.abs(before.logits - after.logits)[0].max(-1) > 1e-7  # (length, 2)
    assert moved[:, 0].tolist() == [False, False, True, True, True]
    assert moved[:, 1].tolist() == [True, True, True, False, False]


def test_losses_are_of_the_word_after_and_the_word_before(model: Model) -> None:
    network = model.module
    assert isinstance(network, ElmoNetwork)
    ids, lengths = torch.tensor([3, 4, 5, 6, 7, 8, 9, 3, 5]), torch.tensor([5, 3, 1])
    runs = [np.asarray(model.run([row]).logits)[0] for row in ([3, 4, 5, 6, 7], [8, 9, 3])]
    logs = [torch.from_numpy(one).log_softmax(-1) for one in runs]
    forth = [-logs[0][t, 0, ids[t + 1]] for t in range(4)] + [-logs[1][t, 0, ids[t + 6]] for t in range(2)]
    back = [-logs[0][t, 1, ids[t - 1]] for t in range(1, 5)] + [-logs[1][t, 1, ids[t + 4]] for t in range(1, 3)]
    found = elmo_losses(network.eval(), ids, lengths)
    for got, expected in zip(found, (forth, back), strict=True):
        np.testing.assert_allclose(got.detach().numpy(), [float(one) for one in expected], atol=1e-5)
    states = elmo_states(network, ids, lengths)
    top = np.asarray(model.run([[8, 9, 3]]).last)[0]
    for state, half in zip(states, (top[:, :6], top[:, 6:]), strict=True):
        np.testing.assert_allclose(state[5:8].detach().numpy(), half, atol=1e-6)


def test_both_directions_learn_a_planted_text() -> None:
    """Words 1 to 9 come in a circle, so that each tells the one after and the one before."""
    model = clearhead.create("elmo", config=SMALL | {"width": 32, "layers": 2}, head="bilm")
    network = model.module.train()
    adam = torch.optim.Adam(network.parameters(), 0.02)
    draw = np.random.default_rng(0)
    first: list[float] = []
    for _ in range(60):
        lengths = draw.integers(4, 12, 16)
        ids = np.concatenate([(draw.integers(9) + np.arange(length)) % 9 + 1 for length in lengths])
        losses = elmo_losses(network, torch.from_numpy(ids), torch.from_numpy(lengths))
        means = [float(loss.detach().mean()) for loss in losses]
        first = first or means
        adam.zero_grad()
        torch.cat(losses).mean().backward()
        adam.step()
    assert min(first) > 2.0
    assert max(means) < 0.3
    network.eval()
    logits = np.asarray(model.run([[2, 3, 4]]).logits)
    assert (logits[0, 2, 0].argmax(), logits[0, 0, 1].argmax()) == (5, 1)


def test_what_it_cannot_do_is_said() -> None:
    bare = clearhead.create("elmo", config=SMALL)
    with pytest.raises(InputError, match="create it with 'bilm'"):
        elmo_losses(bare.module, torch.tensor([1, 2]), torch.tensor([2]))
    with pytest.raises(InputError, match="no head that could name the next word"):
        clearhead.create("elmo", config=SMALL, head="bilm").generate_ids([[1, 2]])
    with pytest.raises(InputError, match="no attention heads"):
        bare.run([[1, 2]], head_scale=[[1.0]] * 3)
    with pytest.raises(InputError, match="lengths must be"):
        elmo_states(bare.module, torch.tensor([1, 2]), torch.tensor([3]))
