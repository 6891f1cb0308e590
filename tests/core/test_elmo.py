"""ELMo: independent directions, equal results padded and packed, and the targets of pre-training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import clearhead
from clearhead import Model
from clearhead.errors import InputError
from clearhead.pretraining.bidirectional import make_bidirectional_batch
from clearhead.pretraining.objective import TextPairs
from clearhead.pretraining.vocab_info import VocabInfo
from clearhead.training.objectives.pretraining import compute_pretrain_losses, score_targets

SMALL: dict[str, Any] = {"vocab_size": 20, "width": 12, "layers": 3}
IDS = [[3, 4, 5, 6, 7], [8, 9, 3, 0, 0], [5, 0, 0, 0, 0]]
MASK = [[1] * 5, [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def model(request: pytest.FixtureRequest) -> Model:
    config = SMALL | {"tie_word_embeddings": request.param, "residual": request.param}
    return clearhead.create("elmo", config=config, head="bilm", seed=2)


def reference_hidden(model: Model, ids: list[int]) -> list[Tensor]:
    """Compute every layer of one text, token by token, with torch cells."""
    words = torch.from_numpy(model.tensor("stack.embed.token.weight"))[ids]
    hidden = [torch.cat([words, words], -1)]
    directions = {"forth": words, "back": words}
    for layer in range(model.shape.stack.layers):
        for direction, x in directions.items():
            cell = torch.nn.LSTMCell(6, 6)
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                value = torch.from_numpy(model.tensor(f"stack.layers.{layer}.{direction}.{kind}_l0"))
                setattr(cell, kind, torch.nn.Parameter(value))
            state, outputs = None, [torch.zeros(6)] * len(ids)
            order = range(len(ids)) if direction == "forth" else reversed(range(len(ids)))
            for index in order:
                state = cell(x[index], state)
                added = x[index] if layer and model.config["residual"] else 0
                outputs[index] = state[0] + added
            directions[direction] = torch.stack(outputs).detach()
        hidden.append(torch.cat([directions["forth"], directions["back"]], -1))
    return hidden


def test_every_layer_is_what_the_paper_says(model: Model) -> None:
    out = model.run(IDS, MASK)
    assert len(out.hidden) == 4
    for row, (ids, mask) in enumerate(zip(IDS, MASK, strict=True)):
        count = sum(mask)
        for result, expected in zip(out.hidden, reference_hidden(model, ids[:count]), strict=True):
            np.testing.assert_allclose(result[row, :count], expected.numpy(), atol=1e-6)


def test_padding_and_neighbors_change_nothing(model: Model) -> None:
    out = model.run(IDS, MASK)
    assert out.logits is not None
    assert out.logits.shape == (3, 5, 2, 20)
    packed = model.core.run_packed([3, 4, 5, 6, 7, 8, 9, 3, 5], None, [5, 3, 1])
    left_padded = model.run([[0, 0, 8, 9, 3]], [[0, 0, 1, 1, 1]])
    other_padding = model.run([[8, 9, 3, 11, 12]], [[1, 1, 1, 0, 0]])
    alone = model.run([[8, 9, 3]])
    assert alone.logits is not None
    for result in (out.logits[1, :3], packed[5:8], left_padded.logits[0, 2:], other_padding.logits[0, :3]):  # type: ignore[index]
        np.testing.assert_allclose(result, alone.logits[0], atol=1e-6)


def test_the_two_directions_never_see_each_other(model: Model) -> None:
    before, after = (model.run([[3, 4, word, 6, 7]]) for word in (5, 11))
    assert before.logits is not None
    assert after.logits is not None
    moved = np.abs(before.logits - after.logits)[0].max(-1) > 1e-7  # (length, 2)
    assert moved[:, 0].tolist() == [False, False, True, True, True]
    assert moved[:, 1].tolist() == [True, True, True, False, False]


def test_a_lesson_asks_for_the_word_after_and_the_word_before(model: Model) -> None:
    texts: TextPairs = [(np.array([3, 4, 5, 6, 7]), None, 0), (np.array([8, 9, 3]), None, 0), (np.array([5]), None, 0)]
    no_tokens = np.zeros(20, bool)
    vocab_info = VocabInfo(size=20, is_special=no_tokens, is_continuation=no_tokens, ordinary_ids=np.arange(20))
    pretrain_batch = make_bidirectional_batch(texts, vocab_info, np.random.default_rng(0))
    answers = score_targets(model.module.eval(), pretrain_batch, "cpu")["words"]
    expected = []
    for text, *_ in texts:
        logs = torch.from_numpy(np.asarray(model.run([text.tolist()]).logits)[0]).log_softmax(-1)  # (length, 2, words)
        for index in range(len(text)):
            expected += [-float(logs[index, 0, text[index + 1]])] if index + 1 < len(text) else []
            expected += [-float(logs[index, 1, text[index - 1]])] if index else []
    np.testing.assert_allclose(answers.losses, expected, atol=1e-5)
    total = compute_pretrain_losses(model.module.eval(), pretrain_batch, {"words": 1.0}, "cpu")["words"].item()
    assert total == pytest.approx(sum(expected), rel=1e-5)


def test_what_it_cannot_do_is_said() -> None:
    bare = clearhead.create("elmo", config=SMALL)
    with pytest.raises(InputError, match="no language-model head"):
        clearhead.create("elmo", config=SMALL, head="bilm").generate_ids([[1, 2]])
    with pytest.raises(InputError, match="no attention heads"):
        bare.run([[1, 2]], head_scale=[[1.0]] * 3)
