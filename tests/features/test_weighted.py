"""layer=weighted: the fitted weights are reported, saved in the passport, and used for prediction."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.api import evaluate, load_predictor, predict, train
from clearhead.cli import main
from clearhead.errors import CheckpointError, InputError
from clearhead.train.finish import Run
from tests.task_rows import make_tagged_words
from tests.tiny_models import make_sentiment_rows, write_csv


@pytest.fixture(scope="module")
def embedding_only_model(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT with informative embeddings only: its blocks have the same output for every text."""
    model = clearhead.load(tiny, "core")
    model.module.stack.blocks[0].feed.norm.weight.data.zero_()
    return str(model.save(tmp_path_factory.mktemp("embedding_only") / "model"))


@pytest.fixture(scope="module")
def weighted_run(embedding_only_model: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("weighted")
    rows = write_csv(folder / "rows.csv", make_sentiment_rows(300))
    return train(
        rows, output=folder / "run", model=embedding_only_model, method="features", layer="weighted", pooling="mean"
    )


@pytest.mark.learns
def test_the_only_informative_layer_gets_all_the_weight(weighted_run: Run) -> None:
    assert weighted_run.metrics["accuracy"].value > 0.75
    (weights_note,) = [note for note in weighted_run.notes if "layer weights learned" in note]
    assert "0: 1.000, 1: 0.000, 2: 0.000" in weights_note
    assert weighted_run.report is not None
    assert weights_note in weighted_run.report.read_text()


def test_the_weights_are_saved_and_used_for_prediction(weighted_run: Run, embedding_only_model: str) -> None:
    passport = json.loads((weighted_run.folder / "clearhead.json").read_text())["trained"]
    assert (passport["layer"], len(passport["layer_scores"])) == ("weighted", 3)
    evaluation = evaluate(weighted_run.folder, weighted_run.folder.parent / "rows.csv", part="test")
    assert evaluation.metrics["log_loss"].value == pytest.approx(weighted_run.metrics["log_loss"].value, abs=1e-5)
    # by hand: gamma * sum_j softmax(s)_j h_j, pooled, and the linear model on it
    texts = [row["text"] for row in make_sentiment_rows(5, seed=4)]
    model, predictor = clearhead.load(embedding_only_model), load_predictor(weighted_run.folder)
    exponentials = np.exp(np.array(passport["layer_scores"]) - max(passport["layer_scores"]))
    weights = passport["layer_gamma"] * exponentials / exponentials.sum()
    mixed = sum(weight * model.embed(texts, layer=layer, pooling="mean") for layer, weight in enumerate(weights))
    logits = predictor.scorer.classic.logits(features=mixed)  # type: ignore[attr-defined]
    assert [prediction.label for prediction in predict(weighted_run.folder, texts)] == [
        predictor.space.names[index] for index in logits.argmax(1)
    ]


def test_layers_are_weighted_for_words_too(tiny: str, tmp_path: Path) -> None:
    rows = [{"tokens": [word for word, _ in row], "tags": [tag for _, tag in row]} for row in make_tagged_words(120)]
    tagger = train(rows, output=tmp_path / "tags", model=tiny, method="features", layer="weighted", report=False)
    assert any("layer weights learned" in note for note in tagger.notes)
    assert predict(tmp_path / "tags", [{"tokens": ["a", "good", "film"]}])[0].tags is not None


def test_the_command_line_reports_the_weights(
    embedding_only_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_csv(tmp_path / "rows.csv", make_sentiment_rows(120))
    main(
        [
            "train",
            str(rows),
            "--model",
            embedding_only_model,
            "--method",
            "features",
            "--set",
            "layer=weighted",
            "-o",
            str(tmp_path / "run"),
        ]
    )
    captured = capsys.readouterr()
    assert "layer weights learned for this task" in captured.out + captured.err


def test_invalid_poolings_and_weights_are_refused(weighted_run: Run, tiny: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match='needs a linear pooling, which max is not; use pooling="mean"'):
        train(
            make_sentiment_rows(60),
            output=tmp_path / "no",
            model=tiny,
            method="features",
            layer="weighted",
            pooling="max",
        )
    predictor = load_predictor(weighted_run.folder)
    assert predictor.trained is not None
    for change in ({"layer_scores": [1.0]}, {"layer_scores": [1e9, 0.0, 0.0]}, {"layer_gamma": -1.0}):
        model = clearhead.load(weighted_run.folder)
        model = replace(model, trained=replace(predictor.trained, **change))
        folder = tmp_path / f"broken{len(list(tmp_path.iterdir()))}"
        model.save(folder)
        for name in ("classic.json", "classic.safetensors"):
            (folder / name).write_bytes((weighted_run.folder / name).read_bytes())
        with pytest.raises(CheckpointError, match=r"weighted layers|has weights for 1 layers"):
            load_predictor(folder)
