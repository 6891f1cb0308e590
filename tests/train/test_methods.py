"""Every method through train, evaluate and predict; what it leaves behind, and what it refuses."""

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
from tests.rows import QUICK, scored
from tests.tiny_models import labelled

METHODS: dict[str, dict[str, Any]] = {
    "finetune": {"epochs": 1, **QUICK},
    "head": {"epochs": 2},
    "features": {"C": 1.0},
    "tfidf": {},
    "majority": {},
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_measures_and_answers(method: str, tiny: str, reviews: Path, tmp_path: Path) -> None:
    model: dict[str, Any] = {} if method in ("tfidf", "majority") else {"model": tiny}
    run = train(reviews, output=tmp_path / "run", method=method, **model, **METHODS[method])
    assert run.method == method
    names = {path.name for path in run.folder.iterdir()}
    assert {"clearhead.json", "metrics.json", "report.html", "run.json", "split.json"} <= names
    assert not [name for name in names if name.endswith((".pkl", ".bin", ".pt", ".joblib"))]
    made = evaluate(run.folder, reviews, part="test")
    assert {name: one.value for name, one in made.metrics.items()} == pytest.approx(
        {name: one.value for name, one in run.metrics.items()}, abs=1e-5
    )
    answers = predict(run.folder, reviews)
    assert answers == predict(run.folder, labelled(200))
    right = sum(answer.label == row["label"] for answer, row in zip(answers, labelled(200), strict=True))
    assert evaluate(run.folder, reviews).metrics["accuracy"].value == right / 200
    predict_file(run.folder, reviews, tmp_path / "out.jsonl")
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["prediction"] for row in written] == [answer.label for answer in answers]


@pytest.mark.parametrize("method", ["features", "tfidf", "majority"])
@pytest.mark.parametrize("two", [False, True])
def test_numbers_by_every_other_method(method: str, two: bool, tiny: str, tmp_path: Path) -> None:
    model: dict[str, Any] = {"model": tiny, "C": 1.0} if method == "features" else {}
    run = train(scored(120, two=two), output=tmp_path / "run", method=method, **model)
    assert run.task == "regress"
    rows = scored(40, seed=3, two=two)
    values = np.array([answer.value for answer in predict(run.folder, rows)], np.float64)
    truth = np.array([row["score"] for row in rows])
    assert np.abs(values - truth).mean() < (400 if method == "majority" else 150)
    assert evaluate(run.folder, rows).metrics["mae"].value == pytest.approx(np.abs(values - truth).mean())


def test_the_majority_is_the_floor_that_words_beat(words: Run, reviews: Path, tmp_path: Path) -> None:
    floor = train(reviews, output=tmp_path / "floor", method="majority")
    assert {answer.label for answer in predict(floor.folder, reviews)} == {"good"}
    assert words.metrics["accuracy"].value > floor.metrics["accuracy"].value + 0.3
    assert words.notes == ()


def test_a_head_learns_and_the_body_stays(tiny: str, reviews: Path, tmp_path: Path) -> None:
    run = train(reviews, output=tmp_path / "run", model=tiny, method="head", epochs=2)
    before, after = load_file(Path(tiny) / "model.safetensors"), load_file(run.folder / "model.safetensors")
    body = [name for name in after if "classifier" not in name and "pooler" not in name]
    assert len(body) > 20
    old = {name.removeprefix("bert."): tensor for name, tensor in before.items()}
    for name in body:
        np.testing.assert_array_equal(after[name], old[name.removeprefix("bert.")])
    plan = json.loads((run.folder / "run.json").read_text())["plan"]["settings"]
    # epochs as given, the rest as the method sets it
    assert (plan["freeze_encoder"], plan["learning_rate"], plan["epochs"]) == (True, 1e-3, 2)


def test_a_fine_tuning_moves_the_body(tiny: str, fitted: Run) -> None:
    before, after = load_file(Path(tiny) / "model.safetensors"), load_file(fitted.folder / "model.safetensors")
    old = {name.removeprefix("bert."): tensor for name, tensor in before.items()}
    name = "embeddings.word_embeddings.weight"
    assert not np.array_equal(after[f"bert.{name}"], old[name])


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
    rows = labelled(60)
    run = train(rows, output=tmp_path / "run", model=tiny, method="features", layer=layer, pooling=pooling, C=1.0)
    assert load_file(run.folder / "classic.safetensors")["weight"].shape[1] == width
    trained = json.loads((run.folder / "clearhead.json").read_text())["trained"]
    assert (trained["layer"], trained["pooling"]) == (layer, pooling.split("+"))
    assert len(predict(run.folder, rows)) == 60


def test_features_are_those_of_embed_under_a_logistic_regression(tiny: str, tmp_path: Path) -> None:
    rows = [{**row, "split": "train"} for row in labelled(120)] + [{**row, "split": "dev"} for row in labelled(40, 5)]
    run = train(rows, output=tmp_path / "run", model=tiny, method="features", layer="last", pooling="first", C=1.0)
    vectors = clearhead.load(tiny).embed([row["text"] for row in rows], layer="last", pooling="first")
    labels = [row["label"] for row in rows]
    peer = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=5000, tol=1e-8))
    peer.fit(vectors[:120], labels[:120])
    said = [answer.label for answer in predict(run.folder, rows)]
    assert np.mean([ours == theirs for ours, theirs in zip(said, peer.predict(vectors), strict=True)]) > 0.97


@pytest.mark.learns
def test_a_run_starts_from_another_run(fitted: Run, tmp_path: Path) -> None:
    rows = [{**row, "label": {"good": "up", "bad": "down"}[row["label"]]} for row in labelled(80, seed=2)]
    more = train(rows, output=tmp_path / "more", model=str(fitted.folder), epochs=2, **QUICK)
    assert more.labels == ("down", "up")
    assert more.metrics["accuracy"].value > 0.8
    frozen = train(rows, output=tmp_path / "frozen", model=str(fitted.folder), method="features", C=1.0)
    assert frozen.metrics["accuracy"].value > 0.8  # an encoder that knows the rule has it in its features
    assert [answer.label for answer in predict(frozen.folder, ["it was good"])] == ["up"]


def test_a_folder_without_a_network_is_no_model_to_start_from(words: Run, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="it has no config"):
        train(labelled(20), output=tmp_path / "run", model=str(words.folder), epochs=1)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"layer": 99}, "There is no layer 99; the model has 3"),
        ({"layer": "top"}, "layer must be a number or one of first, last"),
        ({"layer": "concat_last_four"}, "concat_last_four needs four layers, and this model has 2"),
        ({"pooling": "median"}, "pooling must be one of first"),
    ],
)
def test_features_that_are_not_there(choices: dict[str, Any], said: str, tiny: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        train(labelled(20), output=tmp_path / "run", model=tiny, method="features", **choices)


def test_a_predictor_is_loaded_once_and_used_often(words: Run, reviews: Path) -> None:
    predictor = load_predictor(words.folder)
    assert (predictor.method, predictor.task.name, predictor.space.names) == ("tfidf", "classify", ("bad", "good"))
    assert predict(predictor, reviews) == predict(words.folder, reviews)
    assert evaluate(predictor, reviews).metrics == evaluate(words.folder, reviews).metrics
