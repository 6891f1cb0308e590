"""Small promises that are easy to break: held-out rows are those, the best seed is the best, metrics fit the labels."""

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
from tests.tiny_models import labelled, make_sentence, tiny_model, write_csv


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "rows.csv", labelled(120))


def test_the_part_held_out_is_measured_alone_and_must_be_the_same_rows(tmp_path: Path, data: Path) -> None:
    run = train(data, output=tmp_path / "run", method="tfidf")
    again = evaluate(run.folder, data, part="test")
    assert again.rows == run.rows["test"]
    assert {name: one.value for name, one in again.metrics.items()} == pytest.approx(
        {name: one.value for name, one in run.evaluations["test"].metrics.items()}, nan_ok=True
    )
    data.write_text(data.read_text().replace("film", "plot"))
    with pytest.raises(InputError, match="another file, or it changed"):
        evaluate(run.folder, data, part="test")
    with pytest.raises(InputError, match="held out dev, test"):
        evaluate(run.folder, data, part="train")


def test_the_best_seed_is_the_one_with_the_lowest_loss(tmp_path: Path, tiny: str, data: Path) -> None:
    run = train(
        data, output=tmp_path / "run", model=tiny, seeds=3, metric="log_loss", epochs=1, learning_rate=1e-4, threads=1
    )
    best = min(run.seeds, key=lambda score: (score.dev, score.seed))
    assert best.dev is not None
    assert run.evaluations["dev"].metrics["log_loss"].value <= best.dev + 1e-6  # the temperature may lower it further
    assert not list((tmp_path / "run").rglob("state"))
    assert set(run.over_seeds) == {"dev", "test"}
    assert run.over_seeds["dev"]["spread"] > 0


@pytest.mark.parametrize("metric", ["pearson", "f1_samples", "nonsense"])
def test_a_metric_of_other_labels_is_refused_before_training(tmp_path: Path, data: Path, metric: str) -> None:
    with pytest.raises(InputError, match="metric"):
        train(data, output=tmp_path / "run", method="majority", metric=metric)
    assert not (tmp_path / "run").exists()


def test_undefined_scores_of_seeds_are_null(tmp_path: Path, data: Path) -> None:
    rows = [{"text": row["text"], "score": 0.5 * place} for place, row in enumerate(labelled(60))]
    source = write_csv(tmp_path / "scores.csv", rows)
    run = train(source, output=tmp_path / "run", method="majority", seeds=2, metric="pearson", task="regress")
    assert [score.dev for score in run.seeds] == [None, None]
    assert "NaN" not in json.dumps(run.to_json())
    assert run.over_seeds == {}


def test_dev_rows_from_two_places_are_refused(tmp_path: Path) -> None:
    rows = [{**row, "split": "dev" if place % 5 == 0 else "train"} for place, row in enumerate(labelled(60))]
    source = write_csv(tmp_path / "rows.csv", rows)
    dev = write_csv(tmp_path / "dev.csv", labelled(20, seed=5))
    with pytest.raises(InputError, match="remove one of the two"):
        train(source, dev=dev, output=tmp_path / "run", method="tfidf")


def test_windows_cannot_share_more_than_half(tmp_path: Path, tiny: str, data: Path) -> None:
    with pytest.raises(InputError, match="stride must be at most 12"):
        train(data, output=tmp_path / "run", model=tiny, max_length=16, stride=13)


def test_rows_of_one_first_text_stay_on_one_side(tmp_path: Path) -> None:
    draw = random.Random(3)
    rows: list[dict[str, Any]] = []
    for _ in range(60):
        first = make_sentence(draw, [])
        rows += [{"text": first, "aspect": word, "label": draw.choice("ab")} for word in ("plot", "music", "actor")]
    source = write_csv(tmp_path / "rows.csv", rows)
    run = train(source, output=tmp_path / "run", method="majority")
    held = json.loads((tmp_path / "run" / "split.json").read_text())["parts"]
    sides: dict[str, set[str]] = {}
    for number, row in enumerate(rows, 1):
        side = next((part for part, numbers in held.items() if number in numbers), "train")
        sides.setdefault(row["text"], set()).add(side)
    assert run.task == "pair"
    assert {len(side) for side in sides.values()} == {1}
    assert run.rows["test"] > 5


def test_few_rows_get_more_epochs_and_a_faster_head() -> None:
    plain = TrainSettings()
    assert resolve_epochs(100_000, plain) == plain
    few = resolve_epochs(400, plain)
    assert (few.epochs, few.head_learning_rate) == (12, 20 * plain.learning_rate)
    assert resolve_epochs(400, plain, uses_probe=True).head_learning_rate is None  # a fitted head needs no higher rate
    assert resolve_epochs(400, TrainSettings(learning_rate=2e-4)).head_learning_rate == 1e-3
    assert resolve_epochs(10, plain).epochs == 20
    assert resolve_epochs(400, TrainSettings(head_learning_rate=1e-4)).head_learning_rate == 1e-4
    assert resolve_epochs(400, TrainSettings(freeze_encoder=True)).head_learning_rate is None
