"""A head initialized from a linear probe gives its predictions, without large weights on nearly constant features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.api import train
from clearhead.classic import fit_probe
from clearhead.data import LabelSpace
from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.table import encode_rows
from clearhead.tasks.packed import pack_table
from clearhead.training.loop import compute_logits
from clearhead.training.objectives import CrossEntropy
from clearhead.training.probe import compute_head_features, probe_head
from clearhead.training.settings import TrainSettings
from tests.tiny_models import make_sentiment_rows, tiny_model

SPACE = LabelSpace(names=("a", "b", "c"))


def make_blobs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    targets = generator.integers(0, 3, 240)
    features = np.eye(3)[targets] + 0.2 * generator.normal(size=(240, 3))
    return features.astype(np.float32), targets


def test_a_probe_separates_clusters() -> None:
    features, targets = make_blobs()
    linear = fit_probe(features, targets, SPACE, selection_rows=200)
    new_features, new_targets = make_blobs(seed=1)
    assert (linear.logits(new_features).argmax(1) == new_targets).mean() > 0.95


def test_a_column_that_hardly_varies_gets_no_large_weight() -> None:
    features, targets = make_blobs()
    nearly_constant = 5.0 + 1e-6 * (targets == 0)  # separates the classes by a millionth
    linear = fit_probe(np.column_stack([features, nearly_constant]), targets, SPACE, selection_rows=200)
    assert np.abs(linear.weight[:, 3]).max() < 1e-2
    assert np.abs(linear.weight).max() < 100


def test_numbers_and_several_labels_are_fitted_too() -> None:
    features, targets = make_blobs()
    ridge = fit_probe(
        features, features @ np.array([1.0, -2.0, 3.0]) + 7, LabelSpace(kind="number"), selection_rows=200
    )
    assert ridge.logits(features)[:, 0] == pytest.approx(features @ np.array([1.0, -2.0, 3.0]) + 7, abs=0.5)
    label_matrix = np.stack([targets == 0, targets != 1], axis=1)
    multilabel = fit_probe(features, label_matrix, LabelSpace(names=("x", "y"), kind="multilabel"), selection_rows=200)
    assert ((multilabel.logits(features) > 0) == label_matrix).mean() > 0.95


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


def test_a_run_can_start_from_a_probe(tiny: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": tiny, "epochs": 1, "learning_rate": 1e-6, "report": False, "baselines": False}
    options |= {"threads": 1, "precision": "float", "head_start": "probe"}
    probed, repeated = (train(make_sentiment_rows(600), output=tmp_path / name, **options) for name in ("one", "two"))
    weights = [(run.folder / "model.safetensors").read_bytes() for run in (probed, repeated)]
    assert weights[0] == weights[1]
    settings = json.loads((probed.folder / "clearhead.json").read_text())["trained"]["settings"]
    assert settings["head_start"] == "probe"
    assert any(note.startswith(("Kept the start, a head fitted", "Kept epoch 1 of 1")) for note in probed.notes)


def test_the_head_answers_as_the_linear_model_does(tiny: str) -> None:
    model = clearhead.load(tiny, "core", "cpu", head="classify", labels=("bad", "good", "never"), fresh=True)
    space = LabelSpace(names=("bad", "good", "never"))
    rows = [
        TextRow(number=n, text=row["text"], text_b=None, label=("bad", "good").index(row["label"]), id=None, split=None)
        for n, row in enumerate(make_sentiment_rows(60), 1)
    ]
    data = pack_table(encode_rows(rows, Columns(text="text"), model.tokenizer, space), segments=True)
    settings = TrainSettings(precision="float")
    probe_head(model.module, data, space, settings, objective=CrossEntropy(), device="cpu")
    features, targets = compute_head_features(model.module, data, settings, CrossEntropy(), "cpu")
    linear = fit_probe(features, targets, space, selection_rows=200)
    batch = data.take(np.arange(len(data)))
    with torch.no_grad():
        logits = compute_logits(model.module.eval(), batch, "cpu").numpy()
        bias = model.module.head.out.bias.numpy()
    order = np.random.default_rng(0).permutation(len(data))  # the rows that compute_head_features draws
    assert logits[order][:, :2] == pytest.approx(linear.logits(features)[:, :2], abs=1e-3)
    assert bias[2] == pytest.approx(bias[:2].min() - 10, abs=1e-4)  # no row has this class: unlikely, but finite
    assert not model.module.head.out.__class__.__name__.startswith("Identity")
