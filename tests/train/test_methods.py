"""Every method with train, evaluate and predict: its files, and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import clearhead
from clearhead.api import evaluate, load_predictor, predict, predict_file, train
from clearhead.errors import CheckpointError, InputError
from clearhead.train.finish import Run
from tests.rows import QUICK, make_scored_rows
from tests.tiny_models import make_sentiment_rows

METHODS: dict[str, dict[str, Any]] = {
    "finetune": {"epochs": 1, **QUICK},
    "head": {"epochs": 2},
    "features": {"C": 1.0},
    "tfidf": {},
    "majority": {},
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_evaluates_and_predicts(method: str, tiny: str, reviews: Path, tmp_path: Path) -> None:
    model: dict[str, Any] = {} if method in ("tfidf", "majority") else {"model": tiny}
    run = train(reviews, output=tmp_path / "run", method=method, **model, **METHODS[method])
    assert run.method == method
    names = {path.name for path in run.folder.iterdir()}
    assert {"clearhead.json", "metrics.json", "report.html", "run.json", "split.json"} <= names
    assert not [name for name in names if name.endswith((".pkl", ".bin", ".pt", ".joblib"))]
    evaluation = evaluate(run.folder, reviews, part="test")
    assert {name: metric.value for name, metric in evaluation.metrics.items()} == pytest.approx(
        {name: metric.value for name, metric in run.metrics.items()}, abs=1e-5
    )
    answers = predict(run.folder, reviews)
    assert answers == predict(run.folder, make_sentiment_rows(200))
    correct_count = sum(
        answer.label == row["label"] for answer, row in zip(answers, make_sentiment_rows(200), strict=True)
    )
    assert evaluate(run.folder, reviews).metrics["accuracy"].value == correct_count / 200
    predict_file(run.folder, reviews, tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["prediction"] for row in rows] == [answer.label for answer in answers]


@pytest.mark.parametrize("method", ["features", "tfidf", "majority"])
@pytest.mark.parametrize("has_two_texts", [False, True])
def test_regression_by_other_methods(method: str, has_two_texts: bool, tiny: str, tmp_path: Path) -> None:
    model: dict[str, Any] = {"model": tiny, "C": 1.0} if method == "features" else {}
    run = train(make_scored_rows(120, has_two_texts=has_two_texts), output=tmp_path / "run", method=method, **model)
    assert run.task == "regress"
    rows = make_scored_rows(40, seed=3, has_two_texts=has_two_texts)
    values = np.array([answer.value for answer in predict(run.folder, rows)], np.float64)
    truth = np.array([row["score"] for row in rows])
    assert np.abs(values - truth).mean() < (400 if method == "majority" else 150)
    assert evaluate(run.folder, rows).metrics["mae"].value == pytest.approx(np.abs(values - truth).mean())


def test_tfidf_beats_the_majority(tfidf_run: Run, reviews: Path, tmp_path: Path) -> None:
    majority_run = train(reviews, output=tmp_path / "floor", method="majority")
    assert {answer.label for answer in predict(majority_run.folder, reviews)} == {"good"}
    assert tfidf_run.metrics["accuracy"].value > majority_run.metrics["accuracy"].value + 0.3
    assert tfidf_run.notes == ()


def test_training_the_head_keeps_the_encoder(tiny: str, reviews: Path, tmp_path: Path) -> None:
    run = train(reviews, output=tmp_path / "run", model=tiny, method="head", epochs=2)
    tensors_before, tensors_after = (
        load_file(Path(tiny) / "model.safetensors"),
        load_file(run.folder / "model.safetensors"),
    )
    encoder_names = [name for name in tensors_after if "classifier" not in name and "pooler" not in name]
    assert len(encoder_names) > 20
    base_tensors = {name.removeprefix("bert."): tensor for name, tensor in tensors_before.items()}
    for name in encoder_names:
        np.testing.assert_array_equal(tensors_after[name], base_tensors[name.removeprefix("bert.")])
    plan = json.loads((run.folder / "run.json").read_text())["plan"]["settings"]
    # explicit epochs; the other settings follow from the method
    assert (plan["freeze_encoder"], plan["learning_rate"], plan["epochs"]) == (True, 1e-3, 2)


def test_fine_tuning_changes_the_encoder(tiny: str, fine_tuned_run: Run) -> None:
    tensors_before, tensors_after = (
        load_file(Path(tiny) / "model.safetensors"),
        load_file(fine_tuned_run.folder / "model.safetensors"),
    )
    base_tensors = {name.removeprefix("bert."): tensor for name, tensor in tensors_before.items()}
    name = "embeddings.word_embeddings.weight"
    assert not np.array_equal(tensors_after[f"bert.{name}"], base_tensors[name])


@pytest.mark.parametrize(
    ("layer", "pooling", "width"),
    [
        ("second_to_last", "mean", 32),
        (0, "max", 32),
        ("sum_all", "mean", 32),
        (-1, "mean+max", 64),
    ],
)
def test_features_of_any_layer_and_pooling(layer: Any, pooling: str, width: int, tiny: str, tmp_path: Path) -> None:
    rows = make_sentiment_rows(60)
    run = train(rows, output=tmp_path / "run", model=tiny, method="features", layer=layer, pooling=pooling, C=1.0)
    assert load_file(run.folder / "classic.safetensors")["weight"].shape[1] == width
    trained = json.loads((run.folder / "clearhead.json").read_text())["trained"]
    assert (trained["layer"], trained["pooling"]) == (layer, pooling.split("+"))
    assert len(predict(run.folder, rows)) == 60


def test_features_equal_a_logistic_regression_on_embeddings(tiny: str, tmp_path: Path) -> None:
    rows = [{**row, "split": "train"} for row in make_sentiment_rows(120)] + [
        {**row, "split": "dev"} for row in make_sentiment_rows(40, 5)
    ]
    run = train(rows, output=tmp_path / "run", model=tiny, method="features", layer="last", pooling="first", C=1.0)
    vectors = clearhead.load(tiny).embed([row["text"] for row in rows], layer="last", pooling="first")
    labels = [row["label"] for row in rows]
    reference = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=5000, tol=1e-8))
    reference.fit(vectors[:120], labels[:120])
    predicted = [answer.label for answer in predict(run.folder, rows)]
    assert np.mean([ours == theirs for ours, theirs in zip(predicted, reference.predict(vectors), strict=True)]) > 0.97


@pytest.mark.learns
def test_a_run_starts_from_another_run(fine_tuned_run: Run, tmp_path: Path) -> None:
    rows = [{**row, "label": {"good": "up", "bad": "down"}[row["label"]]} for row in make_sentiment_rows(80, seed=2)]
    continued = train(rows, output=tmp_path / "more", model=str(fine_tuned_run.folder), epochs=2, **QUICK)
    assert continued.labels == ("down", "up")
    assert continued.metrics["accuracy"].value > 0.8
    frozen = train(rows, output=tmp_path / "frozen", model=str(fine_tuned_run.folder), method="features", C=1.0)
    assert frozen.metrics["accuracy"].value > 0.8  # the features of the fine-tuned encoder contain the rule
    assert [answer.label for answer in predict(frozen.folder, ["it was good"])] == ["up"]


def test_a_folder_without_a_network_cannot_be_fine_tuned(tfidf_run: Run, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is not a model folder \(config.json not found\)"):
        train(make_sentiment_rows(20), output=tmp_path / "run", model=str(tfidf_run.folder), epochs=1)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"layer": 99}, "Layer 99 does not exist; the model has 3 layers"),
        ({"layer": "top"}, "layer must be an integer or one of first, last"),
        ({"layer": "concat_last_four"}, "concat_last_four requires four layers, but this model has 2"),
        ({"pooling": "median"}, "pooling must be one of first"),
    ],
)
def test_unavailable_features_are_refused(choices: dict[str, Any], message: str, tiny: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        train(make_sentiment_rows(20), output=tmp_path / "run", model=tiny, method="features", **choices)


def test_a_predictor_can_be_reused(tfidf_run: Run, reviews: Path) -> None:
    predictor = load_predictor(tfidf_run.folder)
    assert (predictor.method, predictor.task.name, predictor.space.names) == ("tfidf", "classify", ("bad", "good"))
    assert predict(predictor, reviews) == predict(tfidf_run.folder, reviews)
    assert evaluate(predictor, reviews).metrics == evaluate(tfidf_run.folder, reviews).metrics
