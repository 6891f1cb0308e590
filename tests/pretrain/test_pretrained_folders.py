"""Pre-trained folders in `transformers`: pairs, lengths and end tokens are the same; checkpoints keep their parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.checkpoint.sentence import write_modules
from clearhead.files import read_json
from clearhead.pretrain.held_out import HeldOutScores
from clearhead.pretraining.baselines import Baseline
from clearhead.shape import Pooling
from tests.planted import write_planted_text
from tests.tiny_models import tiny_model

SIZES: dict[str, dict[str, Any]] = {
    "bert": {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
    },
    "modernbert": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48},
    "marian": {
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
    },
    "t5": {
        "d_model": 32,
        "d_kv": 16,
        "num_layers": 1,
        "num_decoder_layers": 1,
        "num_heads": 2,
        "d_ff": 48,
        "tie_word_embeddings": False,
    },
}
SIZES |= {"albert": SIZES["bert"] | {"embedding_size": 16}, "electra": SIZES["bert"] | {"embedding_size": 16}}
PAIR = ("The red drum is loud.", "The blue bell is soft, and the drum is red.")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_planted_text(tmp_path_factory.mktemp("text") / "text.txt", 60, 4)


def pretrain_tiny(text: Path, folder: Path, family: str, **choices: Any) -> Path:
    """A folder of a tiny model after two steps."""
    usual: dict[str, Any] = {"preset": "tiny", "config": SIZES[family], "vocab_size": 400, "max_length": 32}
    usual |= {"batch_tokens": 512}
    clearhead.pretrain(text, output=folder, **usual, family=family, max_steps=2, threads=1, report=False, **choices)
    return folder


@pytest.mark.parametrize("family", ["bert", "albert", "electra"])
def test_pairs_and_long_texts_are_read_as_here(text: Path, tmp_path: Path, family: str) -> None:
    transformers = pytest.importorskip("transformers")
    folder = pretrain_tiny(text, tmp_path / family, family)
    model, tokenizer = clearhead.load(folder, "core"), transformers.AutoTokenizer.from_pretrained(folder)
    theirs = transformers.AutoModelForPreTraining.from_pretrained(folder).eval()
    ours = model.tokenizer.encode(*PAIR)
    inputs = tokenizer(*PAIR, return_tensors="pt")
    assert inputs["input_ids"][0].tolist() == ours.ids
    assert inputs["token_type_ids"][0].tolist() == ours.segments
    assert 1 in ours.segments
    with torch.no_grad():
        output = theirs(**inputs)
    logits = getattr(output, "prediction_logits", None)
    logits = output.logits if logits is None else logits
    our_logits = np.asarray(model.run([ours.ids], segments=[ours.segments]).logits)
    assert np.abs(our_logits.reshape(logits.shape) - logits.numpy()).max() < 1e-5
    assert len(tokenizer("drum " * 90, truncation=True)["input_ids"]) == 40


@pytest.mark.parametrize("family", ["marian", "t5", "modernbert"])
def test_the_end_is_known_outside(text: Path, tmp_path: Path, family: str) -> None:
    config = read_json(pretrain_tiny(text, tmp_path / family, family) / "config.json")
    tokenizer = clearhead.load(tmp_path / family).tokenizer
    end = tokenizer.sep_id if tokenizer.eos_id is None else tokenizer.eos_id
    assert config["eos_token_id"] == end
    inputs = read_json(tmp_path / family / "tokenizer_config.json")["model_input_names"]
    assert inputs == ["input_ids", "attention_mask"]  # whatever a version of theirs takes where nothing is said
    assert max(value for key, value in config.items() if key.endswith("_token_id")) < config["vocab_size"]
    if family == "marian":
        assert config["forced_eos_token_id"] == end


def test_a_loud_head_is_made_quiet(text: Path, tmp_path: Path) -> None:
    """T5's own output matrix begins with numbers about one: the first loss would be several times that of chance."""
    run = clearhead.pretrain(
        text,
        output=tmp_path / "t5",
        family="t5",
        preset="tiny",
        config=SIZES["t5"],
        vocab_size=260,
        max_length=32,
        batch_tokens=512,
        max_steps=1,
        learning_rate=1e-9,
        threads=1,
        report=False,
    )
    assert run.held_out is not None
    assert run.held_out.loss < np.log(260) + 1


@pytest.mark.parametrize("mode", ["cls", "mean"])
def test_an_encoder_of_sentences_stays_one(text: Path, tmp_path: Path, mode: str) -> None:
    base = tiny_model(tmp_path)
    write_modules(base, Pooling(modes=(mode,), normalize=True, origin="sentence-transformers"), (), 32)
    words = [word for word in clearhead.load(base).tokenizer.vocab if word.isalpha()]
    text_file = tmp_path / "own.txt"
    text_file.write_text("\n\n".join(" ".join(words[start:] + words[:start]) + "." for start in range(len(words))))
    clearhead.pretrain(
        text_file,
        model=str(base),
        output=tmp_path / "run",
        learning_rate=1e-12,
        max_steps=1,
        max_length=32,
        dropout=0.0,
        threads=1,
        report=False,
    )
    sentences = [" ".join(words[:4]), " ".join(words[5:9])]
    before, after = (clearhead.load(folder).embed(sentences) for folder in (base, tmp_path / "run"))
    assert np.abs(before - after).max() < 1e-5
    assert np.abs(np.linalg.norm(after, axis=1) - 1).max() < 1e-5
    assert (tmp_path / "run" / "modules.json").exists()


def test_a_generator_is_taught_further(text: Path, tmp_path: Path) -> None:
    first = pretrain_tiny(text, tmp_path / "first", "electra")
    clearhead.pretrain(
        text,
        model=str(first),
        output=tmp_path / "second",
        learning_rate=1e-12,
        max_steps=1,
        max_length=32,
        dropout=0.0,
        threads=1,
        report=False,
    )
    for part in ("", "generator"):
        first_network, second_network = (
            clearhead.load(folder / part, "core").module for folder in (first, tmp_path / "second")
        )
        for name, tensor in first_network.state_dict().items():
            assert torch.allclose(tensor, second_network.state_dict()[name], atol=1e-6), (part, name)


def test_the_last_of_a_game_is_the_best() -> None:
    """What ELECTRA's model is asked gets harder: losses of different steps are not of the same questions."""
    baseline = Baseline(loss=1.0, accuracy=0.1)
    scores: dict[str, Any] = {
        "loss": 1.0,
        "perplexity": 2.7,
        "accuracy": 0.5,
        "low": 0.4,
        "high": 0.6,
        "loss_low": 0.9,
        "loss_high": 1.1,
        "questions": 9,
        "unigram": baseline,
        "bigram": baseline,
    }
    early, late = (HeldOutScores(step=step, replaced_loss=loss, **scores) for step, loss in ((1, 0.4), (9, 0.5)))
    assert late.score > early.score
    assert HeldOutScores(step=1, **scores).score == HeldOutScores(step=9, **scores).score


def test_a_vocabulary_alone_is_a_tokenizer(text: Path, tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(text.read_text().lower().split())), "a", "."]
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "vocab.txt").write_text("\n".join(dict.fromkeys(words)))
    clearhead.pretrain(
        text,
        output=tmp_path / "run",
        preset="tiny",
        config=SIZES["bert"],
        tokenizer=str(tmp_path / "words"),
        max_steps=1,
        max_length=32,
        threads=1,
        report=False,
    )
    assert clearhead.load(tmp_path / "run").tokenizer.vocab_size == len(dict.fromkeys(words))
    with pytest.raises(clearhead.ClearheadError):
        clearhead.pretrain(text, output=tmp_path / "other", tokenizer=str(tmp_path / "nowhere"), max_steps=1)


def test_a_tokenizer_of_another_length_is_fitted(tmp_path: Path) -> None:
    tokenizer = clearhead.load(tiny_model(tmp_path)).tokenizer
    assert tokenizer.max_length == 32
    wider = clearhead.create("bert", config=SIZES["bert"] | {"max_position_embeddings": 99}, tokenizer=tokenizer)
    assert wider.max_length() == 99
    wider.save(tmp_path / "wider")
    assert json.loads((tmp_path / "wider" / "tokenizer_config.json").read_text())["model_max_length"] == 99
