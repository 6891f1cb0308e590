"""A head that starts as a linear model: the same answers as that model, and no large weights where little varies."""

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
from clearhead.tasks.encoded import encoded
from clearhead.training.loop import compute_logits
from clearhead.training.objectives import CrossEntropy
from clearhead.training.probe import compute_head_features, probe_head
from clearhead.training.settings import TrainSettings
from tests.small import labelled, tiny_model

SPACE = LabelSpace(names=("a", "b", "c"))


def blobs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    targets = draw.integers(0, 3, 240)
    features = np.eye(3)[targets] + 0.2 * draw.normal(size=(240, 3))
    return features.astype(np.float32), targets


def test_a_probe_separates_what_is_separate() -> None:
    features, targets = blobs()
    linear = fit_probe(features, targets, SPACE, tried=200)
    fresh, truth = blobs(seed=1)
    assert (linear.logits(fresh).argmax(1) == truth).mean() > 0.95


def test_a_column_that_hardly_varies_gets_no_large_weight() -> None:
    features, targets = blobs()
    still = 5.0 + 1e-6 * (targets == 0)  # tells the classes apart, by a millionth
    linear = fit_probe(np.column_stack([features, still]), targets, SPACE, tried=200)
    assert np.abs(linear.weight[:, 3]).max() < 1e-2
    assert np.abs(linear.weight).max() < 100


def test_numbers_and_several_labels_are_fitted_too() -> None:
    features, targets = blobs()
    numbers = fit_probe(features, features @ np.array([1.0, -2.0, 3.0]) + 7, LabelSpace(kind="number"), tried=200)
    assert numbers.logits(features)[:, 0] == pytest.approx(features @ np.array([1.0, -2.0, 3.0]) + 7, abs=0.5)
    table = np.stack([targets == 0, targets != 1], axis=1)
    several = fit_probe(features, table, LabelSpace(names=("x", "y"), kind="multilabel"), tried=200)
    assert ((several.logits(features) > 0) == table).mean() > 0.95


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


def test_a_run_can_start_from_a_probe(tiny: str, tmp_path: Path) -> None:
    choices: dict[str, Any] = {"model": tiny, "epochs": 1, "learning_rate": 1e-6, "report": False, "baselines": False}
    choices |= {"threads": 1, "precision": "float", "head_start": "probe"}
    probed, again = (train(labelled(600), output=tmp_path / name, **choices) for name in ("one", "two"))
    weights = [(run.folder / "model.safetensors").read_bytes() for run in (probed, again)]
    assert weights[0] == weights[1]
    settings = json.loads((probed.folder / "clearhead.json").read_text())["trained"]["settings"]
    assert settings["head_start"] == "probe"
    assert any(note.startswith(("Kept the start, a head fitted", "Kept epoch 1 of 1")) for note in probed.notes)


def test_the_head_answers_as_the_linear_model_does(tiny: str) -> None:
    model = clearhead.load(tiny, "core", "cpu", head="classify", labels=("bad", "good", "never"), fresh=True)
    space = LabelSpace(names=("bad", "good", "never"))
    rows = [
        TextRow(number=n, text=row["text"], text_b=None, label=("bad", "good").index(row["label"]), id=None, split=None)
        for n, row in enumerate(labelled(60), 1)
    ]
    data = encoded(encode_rows(rows, Columns(text="text"), model.tokenizer, space), segments=True)
    settings = TrainSettings(precision="float")
    probe_head(model.module, data, space, settings, objective=CrossEntropy(), device="cpu")
    features, targets = compute_head_features(model.module, data, settings, CrossEntropy(), "cpu")
    linear = fit_probe(features, targets, space, tried=200)
    part = data.take(np.arange(len(data)))
    with torch.no_grad():
        logits = compute_logits(model.module.eval(), part, "cpu").numpy()
        bias = model.module.head.out.bias.numpy()
    order = np.random.default_rng(0).permutation(len(data))  # as compute_head_features draws them
    assert logits[order][:, :2] == pytest.approx(linear.logits(features)[:, :2], abs=1e-3)
    assert bias[2] == pytest.approx(bias[:2].min() - 10, abs=1e-4)  # no row has this class: unlikely, and no more
    assert not model.module.head.out.__class__.__name__.startswith("Identity")
