"""The model that comes with the package is small, documents its training, and predicts masked words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.checkpoint.reference import SHIPPED
from clearhead.files import read_json

NAMES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md", "pretraining.json")


def test_the_shipped_model_is_small_and_documents_its_training() -> None:
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
    held_out = facts["held_out"]
    assert held_out["loss_high"] < held_out["bigram"]["loss"] < held_out["unigram"]["loss"]
    assert held_out["pair_accuracy"] > held_out["pair_majority"] + 0.05


@pytest.mark.parametrize(
    ("text", "word"),
    [("He shook his [MASK].", "head"), ("A knock was heard at the [MASK].", "door"), ("I beg your [MASK].", "pardon")],
)
def test_it_predicts_masked_words(text: str, word: str) -> None:
    guesses = clearhead.load("novels").fill(text, top=5)
    assert word in [guess.token for guess in guesses[0]]


def test_it_is_an_ordinary_bert(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    model = clearhead.load("novels", "core")
    ids = [model.tokenizer.encode("The man went to the [MASK] to buy a [MASK] of milk.").ids]
    peer = transformers.BertForPreTraining.from_pretrained(SHIPPED["novels"]).eval()
    with torch.no_grad():
        expected = peer(torch.tensor(ids))
    assert np.abs(np.asarray(model.run(ids).logits) - expected.prediction_logits.numpy()).max() < 1e-4


def test_a_folder_with_its_name_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clearhead.load("novels").save(tmp_path / "novels")
    (tmp_path / "novels" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(clearhead.ClearheadError):
        clearhead.load("novels")
