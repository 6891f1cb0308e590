"""The recurrent family: config.json, saving and loading, invalid settings, supported runtimes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as Plain
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

import clearhead
from clearhead import Model, tensors
from clearhead.errors import ClearheadError, ConfigError, InputError, TensorError
from clearhead.explain import save_attention
from clearhead.families import FAMILIES
from clearhead.model.describe import collect_facts
from clearhead.text import load_tokenizer

CONFIG: dict[str, Any] = {"width": 12, "embed_width": 10, "encoder_layers": 1, "decoder_layers": 2}
WORDS = ["<pad>", "</s>", "<unk>", "je", "suis", "etudiant", "i", "am", "a", "student"]


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """A tiny recurrent model with a vocabulary of ten words."""
    wordlevel = Plain(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    wordlevel.pre_tokenizer = Whitespace()
    wordlevel.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    folder = tmp_path / "words"
    folder.mkdir()
    wordlevel.save(str(folder / "tokenizer.json"))
    settings = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = load_tokenizer(folder, "rnn", {}).source
    return clearhead.create("rnn", config=CONFIG, head="seq2seq", tokenizer=tokenizer)


def test_saved_and_loaded(model: Model, tmp_path: Path) -> None:
    folder = model.save(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == ("rnn", ["RecurrentForTranslation"])
    assert (config["vocab_size"], config["attention"], config["cell"]) == (10, "general", "gru")
    reloaded = clearhead.load(folder)
    assert (reloaded.shape, reloaded.head, reloaded.tokenizer.vocab_size) == (model.shape, "seq2seq", 10)
    encoded = reloaded.tokenizer.encode("je suis etudiant").ids
    assert list(encoded) == [3, 4, 5, 1]
    logits, reloaded_logits = (network.run([encoded], target_ids=[[0, 6, 7]]).logits for network in (model, reloaded))
    assert logits is not None
    assert reloaded_logits is not None
    np.testing.assert_allclose(logits, reloaded_logits, atol=1e-6)
    bare = clearhead.load(folder, head=None)
    assert bare.shape.head is None
    assert bare.run([encoded], target_ids=[[0, 6]]).logits is None
    assert bare.save(tmp_path / "bare")
    assert clearhead.load(tmp_path / "bare").head is None


def test_it_only_runs_in_the_core(model: Model, tmp_path: Path) -> None:
    folder = model.save(tmp_path / "model")
    assert hasattr(clearhead.load(folder, "auto").runner, "network")
    options: dict[str, Any]
    for name, value in (("runtime", "engine"), ("precision", "int8")):
        options = {name: value}
        with pytest.raises(InputError, match="runs only in the core; the engine, int8 and ONNX"):
            clearhead.load(folder, **options)
    with pytest.raises(InputError, match="runs only in the core"):
        clearhead.export(folder, tmp_path / "onnx")
    with pytest.raises(ClearheadError, match="runs only in the core"):
        clearhead.quantize(folder, ["je suis"], output=tmp_path / "small")


def test_an_alignment_can_be_drawn(model: Model, tmp_path: Path) -> None:
    trace = model.trace("je suis etudiant", target="i am a student")
    assert (trace.tokens, trace.target_tokens) == (
        ["je", "suis", "etudiant", "</s>"],
        ["<start>", "i", "am", "a", "student"],
    )
    assert trace.cross[0].probs.shape == (1, 5, 4)
    for name in ("look.svg", "look.html", "look.json"):
        assert save_attention(trace, tmp_path / name, part="cross").stat().st_size > 300
    assert trace.cross[0].has_dot_products
    additive = clearhead.create("rnn", config=CONFIG | {"attention": "additive"}, tokenizer=model.tokenizer)
    additive_trace = additive.trace("je suis", target="i am")
    assert not additive_trace.cross[0].has_dot_products  # additive attention has no products of query and key
    save_attention(additive_trace, tmp_path / "other.html")
    assert '"q":' not in (tmp_path / "other.html").read_text()
    assert '"q":' in (tmp_path / "look.html").read_text()
    source_trace = model.trace("je suis etudiant")
    assert (len(source_trace.hidden), source_trace.cross) == (2, [])
    with pytest.raises(InputError, match="trace has no attention"):
        save_attention(source_trace, tmp_path / "nothing.svg")


def test_texts_become_vectors(model: Model) -> None:
    texts = ["je suis", "je suis etudiant", "a"]
    vectors = model.embed(texts)
    assert vectors.shape == (3, 12)
    np.testing.assert_allclose(vectors[1], model.embed(texts[1:2])[0], atol=1e-5)
    for layer in ("first", "second_to_last", 0, -2):  # below a single layer are the embeddings
        assert model.embed(texts, layer=layer).shape == (3, 10)


def test_described(model: Model) -> None:
    described = collect_facts(model)
    assert described["architecture"] == (
        "recurrent encoder-decoder: 1 + 2 layers of GRU, width 12, read from both ends, general attention"
    )
    assert [described[name] for name in ("heads", "feed_width", "norm")] == [None] * 3
    assert described["positions"] == "the order of reading"
    assert "norm" not in repr(model)
    unidirectional = clearhead.create(
        "rnn", config=CONFIG | {"vocab_size": 9, "input_feeding": True, "bidirectional": False}
    )
    assert "read forward, general attention, input feeding" in repr(unidirectional)
    without_attention = clearhead.create("rnn", config=CONFIG | {"vocab_size": 9, "attention": "none", "cell": "lstm"})
    assert "layers of LSTM, width 12, read from both ends, no attention" in repr(without_attention)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 13}, "width must be even because two directions share it, got 13"),
        ({"attention": "none", "input_feeding": True}, "input_feeding needs attention, but attention is none"),
        ({"attention": "cosine"}, "attention is 'cosine', expected one of none, additive, dot, general, concat"),
        ({"cell": "tanh"}, "cell is 'tanh', expected one of gru, lstm"),
        ({"width": 0}, "width is 0, expected an integer from 1"),
        ({"encoder_layers": 10**9}, "encoder_layers is 1000000000, expected an integer from 1 to 1024"),
        ({"dropout": 1.5}, "dropout is 1.5, expected a number from 0 to 1"),
        ({"bidirectional": "yes"}, "bidirectional is 'yes', expected true or false"),
        (
            {"decoder_start_token_id": 40, "vocab_size": 40},
            "decoder_start_token_id is 40, but the decoder's vocabulary has 40",
        ),
    ],
)
def test_a_bad_config_is_one_sentence(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not describe a recurrent encoder-decoder model") as caught:
        clearhead.create("rnn", config=CONFIG | {"vocab_size": 40} | changes)
    assert message in str(caught.value)
    folder = clearhead.create("rnn", config=CONFIG | {"vocab_size": 40}, head="seq2seq").save(tmp_path)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ConfigError) as caught:
        clearhead.load(folder)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": "lstm"}, "config.json and the weights disagree"),
        ({"attention": "additive"}, "attention.query.weight"),
        ({"bidirectional": False}, "encoder.weight_ih_l0_reverse"),
        ({"encoder_layers": 2}, "encoder.weight_ih_l1"),
        ({"input_feeding": True}, "decoder.weight_ih_l0 is 36x10, expected 36x22"),
    ],
)
def test_weights_of_another_shape(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = clearhead.create("rnn", config=CONFIG | {"vocab_size": 40}, head="seq2seq").save(tmp_path)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(TensorError) as caught:
        clearhead.load(folder)
    assert message in str(caught.value)


def test_heads_that_are_not_there(model: Model) -> None:
    with pytest.raises(InputError, match="'cross' has no block 0; it has 0 blocks"):
        model.prune({0: [0]}, "cross")
    with pytest.raises(InputError, match="no attention heads to scale"):
        model.run([[3, 4]], target_ids=[[0]], head_scale={"cross": [[0.0], [0.0]]})


def test_presets() -> None:
    family = FAMILIES["rnn"]
    for name, preset in family.presets.items():
        shape = family.model_shape(preset, "seq2seq", 2)
        assert tensors.count_values(tensors.expected_sizes(shape)) > 0, name
    luong = family.model_shape(family.presets["big"], "seq2seq", 2)
    assert luong.decoder is not None
    assert luong.decoder.recurrent is not None
    assert (luong.stack.layers, luong.stack.width, luong.decoder.recurrent.input_feeding) == (4, 1000, True)
