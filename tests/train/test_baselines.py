"""Baselines of a run, the epoch that it keeps, and the settings that it chooses."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.api import evaluate, load_predictor, predict, train
from clearhead.data import LabelSpace
from clearhead.data.columns import Columns
from clearhead.evaluate.difference import Difference
from clearhead.jobs.defaults import choose_settings, default_learning_rate
from clearhead.jobs.plan import make_plan
from clearhead.jobs.prepare import PreparedData
from clearhead.predict.frozen_features import compare_vectors
from clearhead.predict.scoring import FeatureScorer
from clearhead.tasks import TASKS
from clearhead.train.baselines import BaselineComparison, describe_better_baseline
from clearhead.train.network import MIN_DEV_ROWS, describe_kept_weights
from clearhead.training.state import TrainingProgress
from tests.rows import QUICK, make_pair_rows, make_scored_rows
from tests.tiny_models import make_sentiment_rows

RATES = {128: 2e-3, 256: 7e-4, 384: 5e-5, 768: 5e-5, 1024: 5e-5, 8: 2e-3}
TAG_RATES = {128: 2e-3, 256: 7.2e-4, 384: 3.2e-4, 768: 8e-5, 1024: 4.5e-5, 8: 2e-3}


@pytest.mark.parametrize("width", RATES)
def test_narrow_models_have_a_higher_learning_rate(width: int) -> None:
    assert default_learning_rate(width) == pytest.approx(RATES[width])
    assert default_learning_rate(width, is_per_word=True) == pytest.approx(TAG_RATES[width])
    assert default_learning_rate(8192, is_per_word=True) == 1e-5


def test_an_explicit_learning_rate_is_kept(tiny: str, tmp_path: Path) -> None:
    explicit = train(
        make_sentiment_rows(40), output=tmp_path / "given", model=tiny, epochs=1, learning_rate=1e-4, report=False
    )
    default_run = train(make_sentiment_rows(40), output=tmp_path / "chosen", model=tiny, epochs=1, report=False)
    plans = [json.loads((run.folder / "run.json").read_text())["plan"] for run in (explicit, default_run)]
    assert [plan["settings"]["learning_rate"] for plan in plans] == [1e-4, default_learning_rate(32)]
    assert [plan["auto_rate"] for plan in plans] == [False, False]  # a resumed run keeps the chosen rate


def test_settings_are_chosen_once_for_rows_labels_and_width(tiny: str) -> None:
    import clearhead

    model = clearhead.load(tiny, "core", head="classify", labels=("a", "b"), fresh=True)
    space = LabelSpace(names=tuple(map(str, range(77))))
    settings = choose_settings(make_plan({}), TASKS["classify"], space, 2_700, model.shape)
    assert (settings.epochs, settings.learning_rate, settings.head_start) == (10, default_learning_rate(32), "random")
    probed = choose_settings(make_plan({"head_start": "probe"}), TASKS["classify"], space, 2_700, model.shape)
    assert (probed.epochs, probed.head_start, probed.head_learning_rate) == (6, "probe", None)
    explicit = choose_settings(
        make_plan({"epochs": 2, "learning_rate": 1e-5}), TASKS["classify"], space, 2_700, model.shape
    )
    assert (explicit.epochs, explicit.learning_rate) == (2, 1e-5)
    few_rows = choose_settings(
        make_plan({"epochs": 40, "learning_rate": 5e-5}), TASKS["classify"], space, 200, model.shape
    )
    # of a new head, also with explicit epochs
    assert (few_rows.epochs, few_rows.head_learning_rate) == (40, 1e-3)
    span = choose_settings(make_plan({"head_start": "probe"}), TASKS["span"], space, 100, model.shape)
    assert span.head_start == "random"  # spans have no linear model


def test_a_network_is_compared_with_majority_and_features(tiny: str, reviews: Path, tmp_path: Path) -> None:
    run = train(reviews, output=tmp_path / "run", model=tiny, epochs=2, **QUICK)
    assert [baseline.method for baseline in run.baselines] == ["majority", "features"]
    majority, features = run.baselines
    assert majority.value is not None
    assert majority.value < 0.7
    assert features.rows == run.rows["train"]
    features_run = train(reviews, output=tmp_path / "own", model=tiny, method="features", report=False)
    assert features.value == pytest.approx(features_run.metrics["accuracy"].value)
    expected = run.metrics["accuracy"].value - majority.value
    assert majority.difference.difference == pytest.approx(expected)
    assert [baseline["method"] for baseline in run.to_json()["baselines"]] == ["majority", "features"]
    assert [baseline.method for baseline in features_run.baselines] == ["majority"]
    assert train(reviews, output=tmp_path / "x", model=tiny, epochs=1, baselines=False, report=False).baselines == ()


def test_pairs_have_the_cosine_of_the_untrained_encoder(tiny: str, tmp_path: Path) -> None:
    run = train(make_pair_rows(150), output=tmp_path / "run", model=tiny, epochs=1, report=False, **QUICK)
    assert [baseline.method for baseline in run.baselines] == ["majority", "cosine", "features"]
    regression = train(
        make_scored_rows(120, has_two_texts=True),
        output=tmp_path / "numbers",
        model=tiny,
        epochs=1,
        report=False,
        **QUICK,
    )
    assert [baseline.method for baseline in regression.baselines] == ["majority", "cosine", "features"]


def test_features_of_pairs_compare_two_vectors(tiny: str, tmp_path: Path) -> None:
    rows = make_scored_rows(120, has_two_texts=True)
    run = train(rows, output=tmp_path / "run", model=tiny, method="features", report=False)
    predictor = load_predictor(run.folder)
    assert isinstance(predictor.scorer, FeatureScorer)
    assert predictor.scorer.separate
    first, second = ([row[name] for row in rows[:5]] for name in ("sentence1", "sentence2"))
    model = predictor.scorer.model
    features = compare_vectors(model.embed([*first, *second]))
    values = predictor.scorer.classic.logits(features=features)[:, 0]
    assert [answer.value for answer in predict(run.folder, rows[:5])] == pytest.approx(values.tolist(), abs=1e-3)
    sweep_run = train(rows, output=tmp_path / "sweep", model=tiny, method="features", layers="sweep", report=False)
    assert evaluate(sweep_run.folder, rows, part="test").metrics["r2"].value == pytest.approx(
        sweep_run.metrics["r2"].value, abs=1e-5
    )


def test_folders_with_features_of_joint_pairs_are_still_supported(tiny: str, tmp_path: Path) -> None:
    run = train(make_pair_rows(80), output=tmp_path / "run", model=tiny, method="features", report=False)
    passport = json.loads((run.folder / "clearhead.json").read_text())
    del passport["trained"]["pairs"]  # as earlier versions wrote it
    (run.folder / "clearhead.json").write_text(json.dumps(passport))
    predictor = load_predictor(run.folder)
    assert isinstance(predictor.scorer, FeatureScorer)
    assert not predictor.scorer.separate


def test_compared_vectors_contain_the_cosine() -> None:
    first, second = np.eye(3, dtype=np.float32)[[0, 1]], np.eye(3, dtype=np.float32)[[0, 2]]
    features = compare_vectors(np.concatenate([first, second]))
    assert features.shape == (2, 6)
    assert features[:, 3:].sum(1).tolist() == [1.0, 0.0]
    assert features[:, :3].sum(1).tolist() == [0.0, 2.0]


def make_comparison(method: str, value: float, low: float, high: float) -> BaselineComparison:
    difference = Difference(difference=(low + high) / 2, low=low, high=high, p=0.01)
    return BaselineComparison(
        method=method, rows=10, value=value, low=0.0, high=1.0, difference=difference, seconds=0.1
    )


def test_a_better_baseline_is_reported() -> None:
    better_features = make_comparison("features", 0.9, -0.1, -0.02)
    insignificant = make_comparison("cosine", 0.95, -0.1, 0.01)
    assert describe_better_baseline((insignificant,), "accuracy", 0.85) is None
    message = describe_better_baseline((insignificant, better_features), "accuracy", 0.85)
    assert message is not None
    assert message.startswith("features is better than this model: accuracy 0.900 vs. 0.850 (difference -0.060")
    assert 'method="features"' in message
    # lower is better
    assert describe_better_baseline((make_comparison("features", 0.3, 0.02, 0.1),), "log_loss", 0.36) is not None
    assert describe_better_baseline((make_comparison("features", 0.4, -0.1, -0.02),), "log_loss", 0.34) is None
    # without features among the baselines
    cosine_message = describe_better_baseline((make_comparison("cosine", 0.9, -0.1, -0.02),), "accuracy", 0.85)
    assert cosine_message is not None
    assert cosine_message.endswith("compare the vectors of `embed` by cosine.")
    undefined = replace(better_features, value=None)
    assert describe_better_baseline((undefined,), "accuracy", 0.85) is None


def describe_weights(dev_rows: int, **progress: Any) -> str | None:
    parts: dict[str, Any] = {"dev": [0] * dev_rows} if dev_rows else {}
    space = LabelSpace(names=("a", "b"))
    prepared = PreparedData(
        task=TASKS["classify"], columns=Columns(text="text"), space=space, parts=parts, messages=(), skipped={}
    )
    was_stopped = bool(progress.pop("was_stopped", False))
    return describe_kept_weights(TrainingProgress(**progress), "accuracy", prepared, was_stopped=was_stopped)


def test_the_kept_epoch_is_reported() -> None:
    assert describe_weights(0) is None
    description = describe_weights(100, scores=[0.5, 0.8, 0.7], best_score=0.8, best_epoch=1)
    assert description == "Kept epoch 2 of 3: dev accuracy 0.8000."
    rising = describe_weights(100, scores=[0.5, 0.7, 0.8], best_score=0.8, best_epoch=2)
    assert rising is not None
    assert "more epochs may help (epochs=6)" in rising
    stopped = describe_weights(100, scores=[0.5, 0.7, 0.8], best_score=0.8, best_epoch=2, was_stopped=True)
    assert stopped is not None
    assert stopped.endswith("The run was finished early: more epochs may help.")
    flat = describe_weights(100, scores=[0.5, 0.799, 0.8], best_score=0.8, best_epoch=2)
    assert flat == "Kept epoch 3 of 3: dev accuracy 0.8000."
    start = describe_weights(100, scores=[0.5, 0.7], best_score=0.85, best_epoch=-1, start_score=0.85)
    assert start is not None
    assert start.startswith("Kept the start, a head fitted on frozen features: dev accuracy 0.8500")
    few_dev_rows = describe_weights(MIN_DEV_ROWS - 1, scores=[0.5, 0.7], best_score=0.7, best_epoch=1)
    assert few_dev_rows is not None
    assert "too few to select the best epoch" in few_dev_rows


def test_too_few_dev_rows_keep_the_last_epoch(tiny: str, tmp_path: Path) -> None:
    rows = [{**row, "split": ("train", "train", "test")[n % 3]} for n, row in enumerate(make_sentiment_rows(90))]
    dev = [{**row, "split": "dev"} for row in make_sentiment_rows(4, seed=3)]
    options: dict[str, Any] = {"model": tiny, "epochs": 3, "report": False, "baselines": False, **QUICK}
    few_dev = train([*rows, *dev], output=tmp_path / "few", **options)
    assert any(note.startswith("4 dev rows are too few to select the best epoch") for note in few_dev.notes)
    without_dev = train(rows, output=tmp_path / "none", dev_share=0.0, test_share=0.0, **options)
    weights = [(run.folder / "model.safetensors").read_bytes() for run in (few_dev, without_dev)]
    assert weights[0] == weights[1]  # the last epoch of both


def test_the_end_of_a_run_shows_baselines(tiny: str, reviews: Path, tmp_path: Path, capsys: Any) -> None:
    from clearhead.cli.train import print_run

    options: dict[str, Any] = {"model": tiny, "epochs": 1, "report": False, **QUICK}
    print_run(train(reviews, output=tmp_path / "run", dev_share=0.3, **options))
    captured = capsys.readouterr()
    assert "baselines on the same test rows" in captured.out
    assert "majority" in captured.out
    assert "Kept epoch 1 of 1: dev accuracy" in captured.out + captured.err


def test_pairs_from_csv_and_from_memory_give_the_same_predictions(tiny: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["sentence1", "sentence2", "label"])
        writer.writeheader()
        writer.writerows(make_pair_rows(80))
    run = train(path, output=tmp_path / "run", model=tiny, method="features", report=False)
    assert predict(run.folder, path) == predict(run.folder, make_pair_rows(80))
