"""The ELMo family: config.json, saving and loading, layers as features, training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.errors import ClearheadError, InputError
from clearhead.explain import save_attention
from clearhead.families import FAMILIES
from tests.tiny_models import make_sentiment_rows, tiny_model

SMALL: dict[str, Any] = {"width": 96}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("elmo")
    tokenizer = clearhead.load(tiny_model(parent)).tokenizer
    return clearhead.create("elmo", config=SMALL, head="bilm", tokenizer=tokenizer, seed=1).save(parent / "elmo")


def test_saved_and_loaded(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == ("elmo", ["ElmoForLanguageModel"])
    model = clearhead.load(folder)
    assert (model.head, model.shape.stack.layers, len(model.labels)) == ("bilm", 2, 2)
    reloaded = clearhead.load(model.save(folder.parent / "again"))
    logits, reloaded_logits = (np.asarray(network.run([[3, 4, 5]]).logits) for network in (model, reloaded))
    np.testing.assert_array_equal(logits, reloaded_logits)
    assert "forward and backward" in repr(model)


def test_it_only_runs_in_the_core(folder: Path, tmp_path: Path) -> None:
    options: dict[str, Any]
    for name, value in (("runtime", "engine"), ("precision", "int8")):
        options = {name: value}
        with pytest.raises(InputError, match="ELMo runs only in the core"):
            clearhead.load(folder, **options)
    with pytest.raises(InputError, match="runs only in the core"):
        clearhead.export(folder, tmp_path / "onnx")
    trace = clearhead.load(folder).trace("the film")
    assert len(trace.hidden) == 3
    with pytest.raises(ClearheadError, match="no attention"):
        save_attention(trace, tmp_path / "attention.svg")


def test_layers_are_features(folder: Path) -> None:
    model = clearhead.load(folder)
    texts = ["the film was good", "bad", "we saw it"]
    words = model.embed(texts, layer=0)
    assert words.shape == (3, 96)
    np.testing.assert_array_equal(words[:, :48], words[:, 48:])
    first_layer, last_layer = model.embed(texts, layer=1), model.embed(texts, layer="last")
    np.testing.assert_allclose(model.embed(texts, layer="sum_all"), first_layer + last_layer, atol=1e-5)
    np.testing.assert_allclose(model.embed(texts[:1], layer=2), last_layer[:1], atol=1e-6)


@pytest.mark.parametrize("preset", FAMILIES["elmo"].presets)
def test_presets_are_shapes(preset: str) -> None:
    family = FAMILIES["elmo"]
    shape = family.model_shape(family.presets[preset], "bilm", 2)
    assert shape.stack.layers == 2
    assert shape.stack.token_width * 2 == shape.stack.width


def test_a_network_and_features_are_learned(folder: Path, tmp_path: Path) -> None:
    tuned = clearhead.train(
        make_sentiment_rows(240),
        output=tmp_path / "tuned",
        model=str(folder),
        learning_rate=1e-2,
        batch_size=16,
        epochs=5,
        report=False,
    )
    assert tuned.metrics["accuracy"].value > 0.9
    features = clearhead.train(
        make_sentiment_rows(240),
        output=tmp_path / "features",
        model=str(folder),
        method="features",
        layer=0,
        report=False,
    )
    assert features.metrics["accuracy"].value > 0.9
    answers = clearhead.predict(tmp_path / "tuned", ["the film was good", "it was awful"])
    assert [answer.label for answer in answers] == ["good", "bad"]


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ClearheadError, match=r"width must be even .* got 7"):
        clearhead.create("elmo", config={"width": 7})
