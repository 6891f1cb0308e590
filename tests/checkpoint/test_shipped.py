"""The model that comes with the package: small, told where it is from, and able to guess a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.checkpoint.reference import SHIPPED
from clearhead.files import read_json

NAMES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md", "pretraining.json")


def test_what_is_shipped_is_small_and_says_how_it_was_made() -> None:
    folder = SHIPPED["novels"]
    assert folder.is_dir()
    assert {path.name for path in folder.iterdir()} <= {*NAMES, "special_tokens_map.json", "vocab.txt"}
    assert all((folder / name).is_file() for name in NAMES)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 40e6
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "clearhead pretrain" in card
    assert "public-domain" in card
    facts = read_json(folder / "pretraining.json")
    assert facts["command"] in card
    held = facts["held_out"]
    assert held["loss_high"] < held["bigram"]["loss"] < held["unigram"]["loss"]
    assert held["pair_accuracy"] > held["pair_majority"] + 0.05


@pytest.mark.parametrize(
    ("text", "word"),
    [("He shook his [MASK].", "head"), ("A knock was heard at the [MASK].", "door"), ("I beg your [MASK].", "pardon")],
)
def test_it_guesses_words(text: str, word: str) -> None:
    guesses = clearhead.load("novels").fill(text, top=5)
    assert word in [guess.token for guess in guesses[0]]


def test_it_is_an_ordinary_bert(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    model = clearhead.load("novels", "core")
    ids = [model.tokenizer.encode("The man went to the [MASK] to buy a [MASK] of milk.").ids]
    peer = transformers.BertForPreTraining.from_pretrained(SHIPPED["novels"]).eval()
    with torch.no_grad():
        out = peer(torch.tensor(ids))
    assert np.abs(np.asarray(model.run(ids).logits) - out.prediction_logits.numpy()).max() < 1e-4


def test_a_folder_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clearhead.load("novels").save(tmp_path / "novels")
    (tmp_path / "novels" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(clearhead.ClearheadError):
        clearhead.load("novels")
