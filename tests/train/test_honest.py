"""Honest evaluation: held-out rows stay held out, the best seed is kept, and metrics must fit the labels."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import evaluate, train
from clearhead.errors import InputError
from clearhead.jobs.defaults import resolve_epochs
from clearhead.training.settings import TrainSettings
from tests.tiny_models import make_sentence, make_sentiment_rows, tiny_model, write_csv


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "rows.csv", make_sentiment_rows(120))


def test_evaluating_a_part_uses_only_its_rows_and_detects_changes(tmp_path: Path, data: Path) -> None:
    run = train(data, output=tmp_path / "run", method="tfidf")
    evaluation = evaluate(run.folder, data, part="test")
    assert evaluation.rows == run.rows["test"]
    assert {name: metric.value for name, metric in evaluation.metrics.items()} == pytest.approx(
        {name: metric.value for name, metric in run.evaluations["test"].metrics.items()}, nan_ok=True
    )
    data.write_text(data.read_text().replace("film", "plot"))
    with pytest.raises(InputError, match="the file is a different one or has changed"):
        evaluate(run.folder, data, part="test")
    with pytest.raises(InputError, match="held out dev, test"):
        evaluate(run.folder, data, part="train")


def test_the_best_seed_is_the_one_with_the_lowest_loss(tmp_path: Path, tiny: str, data: Path) -> None:
    run = train(
        data, output=tmp_path / "run", model=tiny, seeds=3, metric="log_loss", epochs=1, learning_rate=1e-4, threads=1
    )
    best_seed = min(run.seeds, key=lambda score: (score.dev, score.seed))
    assert best_seed.dev is not None
    assert run.evaluations["dev"].metrics["log_loss"].value <= best_seed.dev + 1e-6  # calibration may lower it further
    assert not list((tmp_path / "run").rglob("state"))
    assert set(run.over_seeds) == {"dev", "test"}
    assert run.over_seeds["dev"]["spread"] > 0


@pytest.mark.parametrize("metric", ["pearson", "f1_samples", "nonsense"])
def test_a_metric_for_other_labels_is_refused_before_training(tmp_path: Path, data: Path, metric: str) -> None:
    with pytest.raises(InputError, match="metric"):
        train(data, output=tmp_path / "run", method="majority", metric=metric)
    assert not (tmp_path / "run").exists()


def test_undefined_scores_of_seeds_are_null(tmp_path: Path, data: Path) -> None:
    rows = [{"text": row["text"], "score": 0.5 * index} for index, row in enumerate(make_sentiment_rows(60))]
    source = write_csv(tmp_path / "scores.csv", rows)
    run = train(source, output=tmp_path / "run", method="majority", seeds=2, metric="pearson", task="regress")
    assert [score.dev for score in run.seeds] == [None, None]
    assert "NaN" not in json.dumps(run.to_json())
    assert run.over_seeds == {}


def test_dev_rows_from_two_sources_are_refused(tmp_path: Path) -> None:
    rows = [{**row, "split": "dev" if index % 5 == 0 else "train"} for index, row in enumerate(make_sentiment_rows(60))]
    source = write_csv(tmp_path / "rows.csv", rows)
    dev = write_csv(tmp_path / "dev.csv", make_sentiment_rows(20, seed=5))
    with pytest.raises(InputError, match="remove one of the two"):
        train(source, dev=dev, output=tmp_path / "run", method="tfidf")


def test_windows_cannot_share_more_than_half(tmp_path: Path, tiny: str, data: Path) -> None:
    with pytest.raises(InputError, match="stride must be at most 12"):
        train(data, output=tmp_path / "run", model=tiny, max_length=16, stride=13)


def test_pairs_with_the_same_first_text_stay_in_one_part(tmp_path: Path) -> None:
    generator = random.Random(3)
    rows: list[dict[str, Any]] = []
    for _ in range(60):
        first = make_sentence(generator, [])
        rows += [
            {"text": first, "aspect": word, "label": generator.choice("ab")} for word in ("plot", "music", "actor")
        ]
    source = write_csv(tmp_path / "rows.csv", rows)
    run = train(source, output=tmp_path / "run", method="majority")
    held_out = json.loads((tmp_path / "run" / "split.json").read_text())["parts"]
    parts_of_text: dict[str, set[str]] = {}
    for number, row in enumerate(rows, 1):
        part_name = next((part for part, numbers in held_out.items() if number in numbers), "train")
        parts_of_text.setdefault(row["text"], set()).add(part_name)
    assert run.task == "pair"
    assert {len(part_name) for part_name in parts_of_text.values()} == {1}
    assert run.rows["test"] > 5


def test_few_rows_get_more_epochs_and_a_faster_head() -> None:
    default_settings = TrainSettings()
    assert resolve_epochs(100_000, default_settings) == default_settings
    few_rows = resolve_epochs(400, default_settings)
    assert (few_rows.epochs, few_rows.head_learning_rate) == (12, 20 * default_settings.learning_rate)
    # a probed head needs no higher learning rate
    assert resolve_epochs(400, default_settings, uses_probe=True).head_learning_rate is None
    assert resolve_epochs(400, TrainSettings(learning_rate=2e-4)).head_learning_rate == 1e-3
    assert resolve_epochs(10, default_settings).epochs == 20
    assert resolve_epochs(400, TrainSettings(head_learning_rate=1e-4)).head_learning_rate == 1e-4
    assert resolve_epochs(400, TrainSettings(freeze_encoder=True)).head_learning_rate is None
