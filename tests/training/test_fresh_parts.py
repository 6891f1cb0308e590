"""Parameters missing in a checkpoint may train faster, and a new output bias starts from token frequencies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import clearhead
from clearhead.files import read_json
from clearhead.pretrain.model import make_electra_pair
from clearhead.pretrain.plan import NEW_HEAD_LEARNING_RATE, make_pretrain_plan
from clearhead.training.pretrain_loop import collect_fresh_parameters, make_pretrain_optimizer
from tests.planted import write_planted_text
from tests.tiny_models import tiny_model

CONFIG = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
CONFIG |= {"vocab_size": 60}


def test_new_parameters_have_their_own_learning_rate(tmp_path: Path) -> None:
    model = clearhead.load(tiny_model(tmp_path), "core", head="masked", fresh=True)
    settings = make_pretrain_plan({"model": "x"}).settings
    assert settings.head_learning_rate == NEW_HEAD_LEARNING_RATE > settings.learning_rate
    optimizer = make_pretrain_optimizer(model.module, settings, collect_fresh_parameters(model.module, model.fresh))
    rates = {id(parameter): group["base"] for group in optimizer.param_groups for parameter in group["params"]}
    named_parameters = dict(model.module.named_parameters())
    assert set(rates) == {id(parameter) for parameter in named_parameters.values()}
    assert {
        name for name, parameter in named_parameters.items() if rates[id(parameter)] == NEW_HEAD_LEARNING_RATE
    } == set(model.fresh)
    assert {name.split(".")[0] for name in model.fresh} == {"head"}


def test_what_a_checkpoint_has_is_not_new(tmp_path: Path) -> None:
    clearhead.load(tiny_model(tmp_path), "core", head="masked", fresh=True).save(tmp_path / "with")
    assert clearhead.load(tmp_path / "with", "core").fresh == ()


def test_a_generator_is_new_except_for_the_shared_embeddings() -> None:
    model = clearhead.create("electra", config=CONFIG | {"embedding_size": 16}, head="replaced")
    pair = make_electra_pair(model, 0)
    fresh_ids = {id(parameter) for parameter in collect_fresh_parameters(pair, ())}
    embeddings = pair.generator.stack.embed.token.weight
    assert id(embeddings) not in fresh_ids
    assert all(
        id(parameter) in fresh_ids for name, parameter in pair.generator.named_parameters() if name.startswith("head.")
    )
    assert not fresh_ids & {id(parameter) for parameter in pair.model.parameters()}


@pytest.mark.parametrize("has_head", [False, True])
def test_a_new_bias_starts_from_frequencies(tmp_path: Path, has_head: bool) -> None:
    """A tiny learning rate keeps the initial bias: higher for frequent words, or that of a checkpoint with a head."""
    model_folder, text_file = tiny_model(tmp_path), tmp_path / "text.txt"
    write_planted_text(text_file, 40, 4)
    text_file.write_text(" ".join(read_words(model_folder)) + ". " + text_file.read_text())
    if has_head:
        clearhead.load(model_folder, "core", head="masked", fresh=True).save(tmp_path / "with")
        model_folder = tmp_path / "with"
    clearhead.pretrain(
        text_file,
        model=str(model_folder),
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
    if has_head:
        assert torch.allclose(bias, torch.zeros_like(bias), atol=1e-6)
    else:
        biases = np.asarray(bias.detach())
        assert biases.max() > biases.min() + 1
    assert read_json(tmp_path / "run" / "pretraining.json")["plan"]["settings"]["head_learning_rate"] == 1e-12


def read_words(folder: Path) -> list[str]:
    """The words in the vocabulary of a model folder."""
    return [word for word in clearhead.load(folder).tokenizer.vocab if word.isalpha()]
