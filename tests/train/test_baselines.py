"""What a run has to beat, the epoch that it keeps, and the settings that it chooses."""

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
from clearhead.predict.scoring import FeatureScorer, compare_vectors
from clearhead.tasks import TASKS
from clearhead.train.baselines import BaselineComparison, describe_better_baseline
from clearhead.train.network import MIN_DEV_ROWS, describe_kept_weights
from clearhead.training.state import TrainingProgress
from tests.rows import QUICK, paired, scored
from tests.tiny_models import labelled

RATES = {128: 2e-3, 256: 7e-4, 384: 5e-5, 768: 5e-5, 1024: 5e-5, 8: 2e-3}
TAG_RATES = {128: 2e-3, 256: 7.2e-4, 384: 3.2e-4, 768: 8e-5, 1024: 4.5e-5, 8: 2e-3}


@pytest.mark.parametrize("width", RATES)
def test_narrow_models_learn_at_a_higher_rate(width: int) -> None:
    assert default_learning_rate(width) == pytest.approx(RATES[width])
    assert default_learning_rate(width, is_per_word=True) == pytest.approx(TAG_RATES[width])
    assert default_learning_rate(8192, is_per_word=True) == 1e-5


def test_a_rate_that_was_given_is_kept(tiny: str, tmp_path: Path) -> None:
    given = train(labelled(40), output=tmp_path / "given", model=tiny, epochs=1, learning_rate=1e-4, report=False)
    chosen = train(labelled(40), output=tmp_path / "chosen", model=tiny, epochs=1, report=False)
    plans = [json.loads((run.folder / "run.json").read_text())["plan"] for run in (given, chosen)]
    assert [plan["settings"]["learning_rate"] for plan in plans] == [1e-4, default_learning_rate(32)]
    assert [plan["auto_rate"] for plan in plans] == [False, False]  # a resumed run keeps what was chosen


def test_settings_are_chosen_once_for_rows_labels_and_width(tiny: str) -> None:
    import clearhead

    model = clearhead.load(tiny, "core", head="classify", labels=("a", "b"), fresh=True)
    space = LabelSpace(names=tuple(map(str, range(77))))
    chosen = choose_settings(make_plan({}), TASKS["classify"], space, 2_700, model.shape)
    assert (chosen.epochs, chosen.learning_rate, chosen.head_start) == (10, default_learning_rate(32), "random")
    probed = choose_settings(make_plan({"head_start": "probe"}), TASKS["classify"], space, 2_700, model.shape)
    assert (probed.epochs, probed.head_start, probed.head_learning_rate) == (6, "probe", None)
    given = choose_settings(
        make_plan({"epochs": 2, "learning_rate": 1e-5}), TASKS["classify"], space, 2_700, model.shape
    )
    assert (given.epochs, given.learning_rate) == (2, 1e-5)
    few = choose_settings(make_plan({"epochs": 40, "learning_rate": 5e-5}), TASKS["classify"], space, 200, model.shape)
    assert (few.epochs, few.head_learning_rate) == (40, 1e-3)  # of a new head, also with epochs from the caller
    no_head = choose_settings(make_plan({"head_start": "probe"}), TASKS["span"], space, 100, model.shape)
    assert no_head.head_start == "random"  # no linear model finds answers in passages


def test_majority_and_features_stand_beside_a_trained_network(tiny: str, reviews: Path, tmp_path: Path) -> None:
    run = train(reviews, output=tmp_path / "run", model=tiny, epochs=2, **QUICK)
    assert [one.method for one in run.baselines] == ["majority", "features"]
    majority, features = run.baselines
    assert majority.value is not None
    assert majority.value < 0.7
    assert features.rows == run.rows["train"]
    own = train(reviews, output=tmp_path / "own", model=tiny, method="features", report=False)
    assert features.value == pytest.approx(own.metrics["accuracy"].value)
    expected = run.metrics["accuracy"].value - majority.value
    assert majority.difference.difference == pytest.approx(expected)
    assert [one["method"] for one in run.to_json()["baselines"]] == ["majority", "features"]
    assert [one.method for one in own.baselines] == ["majority"]
    assert train(reviews, output=tmp_path / "x", model=tiny, epochs=1, baselines=False, report=False).baselines == ()


def test_pairs_have_the_cosine_of_the_untrained_encoder(tiny: str, tmp_path: Path) -> None:
    run = train(paired(150), output=tmp_path / "run", model=tiny, epochs=1, report=False, **QUICK)
    assert [one.method for one in run.baselines] == ["majority", "cosine", "features"]
    numbers = train(scored(120, two=True), output=tmp_path / "numbers", model=tiny, epochs=1, report=False, **QUICK)
    assert [one.method for one in numbers.baselines] == ["majority", "cosine", "features"]


def test_features_of_pairs_compare_two_vectors(tiny: str, tmp_path: Path) -> None:
    rows = scored(120, two=True)
    run = train(rows, output=tmp_path / "run", model=tiny, method="features", report=False)
    predictor = load_predictor(run.folder)
    assert isinstance(predictor.scorer, FeatureScorer)
    assert predictor.scorer.separate
    one, two = ([row[name] for row in rows[:5]] for name in ("sentence1", "sentence2"))
    model = predictor.scorer.model
    features = compare_vectors(model.embed([*one, *two]))
    values = predictor.scorer.classic.logits(features=features)[:, 0]
    assert [answer.value for answer in predict(run.folder, rows[:5])] == pytest.approx(values.tolist(), abs=1e-3)
    swept = train(rows, output=tmp_path / "sweep", model=tiny, method="features", layers="sweep", report=False)
    assert evaluate(swept.folder, rows, part="test").metrics["r2"].value == pytest.approx(
        swept.metrics["r2"].value, abs=1e-5
    )


def test_folders_whose_features_read_two_texts_together_are_still_read(tiny: str, tmp_path: Path) -> None:
    run = train(paired(80), output=tmp_path / "run", model=tiny, method="features", report=False)
    passport = json.loads((run.folder / "clearhead.json").read_text())
    del passport["trained"]["pairs"]  # as earlier versions wrote it
    (run.folder / "clearhead.json").write_text(json.dumps(passport))
    predictor = load_predictor(run.folder)
    assert isinstance(predictor.scorer, FeatureScorer)
    assert not predictor.scorer.separate


def test_compared_vectors_hold_the_cosine() -> None:
    first, second = np.eye(3, dtype=np.float32)[[0, 1]], np.eye(3, dtype=np.float32)[[0, 2]]
    made = compare_vectors(np.concatenate([first, second]))
    assert made.shape == (2, 6)
    assert made[:, 3:].sum(1).tolist() == [1.0, 0.0]
    assert made[:, :3].sum(1).tolist() == [0.0, 2.0]


def baseline(method: str, value: float, low: float, high: float) -> BaselineComparison:
    gap = Difference(difference=(low + high) / 2, low=low, high=high, p=0.01)
    return BaselineComparison(method=method, rows=10, value=value, low=0.0, high=1.0, difference=gap, seconds=0.1)


def test_a_cheaper_method_that_is_better_is_named() -> None:
    worse = baseline("features", 0.9, -0.1, -0.02)
    noise = baseline("cosine", 0.95, -0.1, 0.01)
    assert describe_better_baseline((noise,), "accuracy", 0.85) is None
    said = describe_better_baseline((noise, worse), "accuracy", 0.85)
    assert said is not None
    assert said.startswith("features is better than this model: accuracy 0.900 against 0.850 (difference -0.060")
    assert 'method="features"' in said
    assert (
        describe_better_baseline((baseline("features", 0.3, 0.02, 0.1),), "log_loss", 0.36) is not None
    )  # lower is better
    assert describe_better_baseline((baseline("features", 0.4, -0.1, -0.02),), "log_loss", 0.34) is None
    cosine = describe_better_baseline((baseline("cosine", 0.9, -0.1, -0.02),), "accuracy", 0.85)  # beside features
    assert cosine is not None
    assert cosine.endswith("compare the vectors of `embed` by their cosine.")
    undefined = replace(worse, value=None)
    assert describe_better_baseline((undefined,), "accuracy", 0.85) is None


def kept(rows: int, **progress: Any) -> str | None:
    parts: dict[str, Any] = {"dev": [0] * rows} if rows else {}
    space = LabelSpace(names=("a", "b"))
    prepared = PreparedData(
        task=TASKS["classify"], columns=Columns(text="text"), space=space, parts=parts, messages=(), skipped={}
    )
    stopped = bool(progress.pop("was_stopped", False))
    return describe_kept_weights(TrainingProgress(**progress), "accuracy", prepared, was_stopped=stopped)


def test_the_epoch_that_was_kept_is_named() -> None:
    assert kept(0) is None
    chosen = kept(100, scores=[0.5, 0.8, 0.7], best_score=0.8, best_epoch=1)
    assert chosen == "Kept epoch 2 of 3: dev accuracy 0.8000."
    rising = kept(100, scores=[0.5, 0.7, 0.8], best_score=0.8, best_epoch=2)
    assert rising is not None
    assert "more may help (epochs=6)" in rising
    stopped = kept(100, scores=[0.5, 0.7, 0.8], best_score=0.8, best_epoch=2, was_stopped=True)
    assert stopped is not None
    assert stopped.endswith("The run was finished before its time: more epochs may help.")
    flat = kept(100, scores=[0.5, 0.799, 0.8], best_score=0.8, best_epoch=2)
    assert flat == "Kept epoch 3 of 3: dev accuracy 0.8000."
    start = kept(100, scores=[0.5, 0.7], best_score=0.85, best_epoch=-1, start_score=0.85)
    assert start is not None
    assert start.startswith("Kept the start, a head fitted on frozen features: dev accuracy 0.8500")
    few = kept(MIN_DEV_ROWS - 1, scores=[0.5, 0.7], best_score=0.7, best_epoch=1)
    assert few is not None
    assert "too few to choose an epoch by" in few


def test_too_few_dev_rows_keep_the_last_epoch(tiny: str, tmp_path: Path) -> None:
    rows = [{**row, "split": ("train", "train", "test")[n % 3]} for n, row in enumerate(labelled(90))]
    dev = [{**row, "split": "dev"} for row in labelled(4, seed=3)]
    choices: dict[str, Any] = {"model": tiny, "epochs": 3, "report": False, "baselines": False, **QUICK}
    few = train([*rows, *dev], output=tmp_path / "few", **choices)
    assert any(note.startswith("4 dev rows are too few to choose an epoch by") for note in few.notes)
    none = train(rows, output=tmp_path / "none", dev_share=0.0, test_share=0.0, **choices)
    weights = [(run.folder / "model.safetensors").read_bytes() for run in (few, none)]
    assert weights[0] == weights[1]  # the last epoch of each


def test_the_end_of_a_run_shows_baselines(tiny: str, reviews: Path, tmp_path: Path, capsys: Any) -> None:
    from clearhead.cli.train import print_run

    choices: dict[str, Any] = {"model": tiny, "epochs": 1, "report": False, **QUICK}
    print_run(train(reviews, output=tmp_path / "run", dev_share=0.3, **choices))
    out = capsys.readouterr()
    assert "baselines on the same test rows" in out.out
    assert "majority" in out.out
    assert "Kept epoch 1 of 1: dev accuracy" in out.out + out.err


def test_rows_of_csv_are_compared_like_values(tiny: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["sentence1", "sentence2", "label"])
        writer.writeheader()
        writer.writerows(paired(80))
    run = train(path, output=tmp_path / "run", model=tiny, method="features", report=False)
    assert predict(run.folder, path) == predict(run.folder, paired(80))
