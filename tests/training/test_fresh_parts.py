"""What is new beside a checkpoint: it may learn faster, and its bias begins with how frequent words are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import clearhead
from clearhead.files import read_json
from clearhead.pretrain.model import make_electra_pair
from clearhead.pretrain.plan import NEW_HEAD_LEARNING_RATE, make_pretrain_plan
from clearhead.training.pretrain_loop import fresh_parameters, make_pretrain_optimizer
from tests.planted import planted_text
from tests.small import tiny_model

BASE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48, "vocab_size": 60}


def test_new_parts_have_a_rate_of_their_own(tmp_path: Path) -> None:
    model = clearhead.load(tiny_model(tmp_path), "core", head="masked", fresh=True)
    settings = make_pretrain_plan({"model": "x"}).settings
    assert settings.head_learning_rate == NEW_HEAD_LEARNING_RATE > settings.learning_rate
    made = make_pretrain_optimizer(model.module, settings, fresh_parameters(model.module, model.fresh))
    rates = {id(one): group["base"] for group in made.param_groups for one in group["params"]}
    named = dict(model.module.named_parameters())
    assert set(rates) == {id(one) for one in named.values()}
    assert {name for name, one in named.items() if rates[id(one)] == NEW_HEAD_LEARNING_RATE} == set(model.fresh)
    assert {name.split(".")[0] for name in model.fresh} == {"head"}


def test_what_a_checkpoint_has_is_not_new(tmp_path: Path) -> None:
    clearhead.load(tiny_model(tmp_path), "core", head="masked", fresh=True).save(tmp_path / "with")
    assert clearhead.load(tmp_path / "with", "core").fresh == ()


def test_a_generator_is_new_but_for_the_words() -> None:
    model = clearhead.create("electra", config=BASE | {"embedding_size": 16}, head="replaced")
    game = make_electra_pair(model, 0)
    made = {id(one) for one in fresh_parameters(game, ())}
    words = game.generator.stack.embed.token.weight
    assert id(words) not in made
    assert all(id(one) in made for name, one in game.generator.named_parameters() if name.startswith("head."))
    assert not made & {id(one) for one in game.model.parameters()}


@pytest.mark.parametrize("again", [False, True])
def test_a_new_bias_begins_with_frequencies(tmp_path: Path, again: bool) -> None:
    """A rate of next to nothing leaves the bias as it began: frequent words above others, unless there was one."""
    base, text = tiny_model(tmp_path), tmp_path / "text.txt"
    planted_text(text, 40, 4)
    text.write_text(" ".join(read_words(base)) + ". " + text.read_text())
    if again:
        clearhead.load(base, "core", head="masked", fresh=True).save(tmp_path / "with")
        base = tmp_path / "with"
    clearhead.pretrain(
        text,
        model=str(base),
        output=tmp_path / "run",
        max_steps=1,
        max_length=32,
        learning_rate=1e-12,
        head_learning_rate=1e-12,
        threads=1,
        report=False,
        batch_tokens=256,
    )
    network = clearhead.load(tmp_path / "run", "core").module
    assert network.head is not None
    bias = network.head.out.bias
    assert bias is not None
    if again:
        assert torch.allclose(bias, torch.zeros_like(bias), atol=1e-6)
    else:
        values = np.asarray(bias.detach())
        assert values.max() > values.min() + 1
    assert read_json(tmp_path / "run" / "pretraining.json")["plan"]["settings"]["head_learning_rate"] == 1e-12


def read_words(folder: Path) -> list[str]:
    """Words that the tokenizer of a folder knows."""
    return [word for word in clearhead.load(folder).tokenizer.vocab if word.isalpha()]
