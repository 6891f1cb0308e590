"""A whole training run: its files, reproducibility, seeds, epochs, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.api import evaluate, load_predictor, predict, train
from clearhead.errors import ClearheadError, InputError
from clearhead.jobs.defaults import resolve_epochs
from clearhead.jobs.events import RunEvents
from clearhead.jobs.plan import RunPlan
from clearhead.tasks import Calibration
from clearhead.train.finish import Run
from tests.rows import QUICK, make_scored_rows
from tests.tiny_models import make_sentiment_rows, write_csv

SHORT: dict[str, Any] = {"epochs": 2, "learning_rate": 3e-3, "batch_size": 16}


def read_trained(run: Run) -> dict[str, Any]:
    passport: dict[str, Any] = json.loads((run.folder / "clearhead.json").read_text())
    return passport["trained"] | {"passport": passport}


def read_log_lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_the_passport_is_complete(fine_tuned_run: Run, tiny: str) -> None:
    trained = read_trained(fine_tuned_run)
    assert (trained["task"], trained["method"], trained["kind"]) == ("classify", "finetune", "classes")
    assert trained["labels"] == ["bad", "good"]
    assert trained["columns"] == {"text": "text", "label": "label", "id": "id"}
    assert trained["base"] == Path(tiny).name  # without the path on this machine
    assert (trained["max_length"], trained["long"], trained["stride"]) == (32, "window", 0)
    assert trained["seeds"] == [0]
    assert trained["settings"]["epochs"] == 8
    assert {"python", "clearhead", "torch", "tokenizers", "numpy"} <= trained["versions"].keys()
    assert trained["versions"]["clearhead"] == clearhead.__version__
    assert trained["temperature"] != 1.0
    fingerprints = trained["data"]
    assert {part: fingerprint["rows"] for part, fingerprint in fingerprints.items()} == {
        "train": 160,
        "dev": 20,
        "test": 20,
    }
    assert {fingerprint["name"] for fingerprint in fingerprints.values()} == {"reviews.csv"}
    assert len({fingerprint["sha256"] for fingerprint in fingerprints.values()}) == 3
    accuracy = fine_tuned_run.metrics["accuracy"]
    assert trained["metrics"]["test"]["accuracy"] == {
        "value": accuracy.value,
        "low": accuracy.low,
        "high": accuracy.high,
    }
    passport = trained["passport"]
    assert (passport["labels"], passport["head"], passport["family"]) == (["bad", "good"], "classify", "bert")
    assert len(passport["golden"]) > 5


def test_the_run_folder_is_complete(fine_tuned_run: Run) -> None:
    metrics = json.loads((fine_tuned_run.folder / "metrics.json").read_text())
    assert metrics["parts"]["test"]["metrics"]["accuracy"]["value"] == fine_tuned_run.metrics["accuracy"].value
    assert metrics["parts"]["dev"]["calibration"]["temperature"] != 1.0
    assert fine_tuned_run.report == fine_tuned_run.folder / "report.html"
    assert fine_tuned_run.report.read_text().startswith("<!doctype html>")
    log = read_log_lines(fine_tuned_run.folder)
    assert [line["step"] for line in log] == list(range(1, 81))
    assert [line["epoch"] for line in log if "score" in line] == list(range(8))
    best_scores = [line["score"] for line in log if line.get("best")]
    assert best_scores == sorted(best_scores)
    assert best_scores[-1] == max(line["score"] for line in log if "score" in line)
    assert fine_tuned_run.evaluations["dev"].metrics["accuracy"].value == pytest.approx(best_scores[-1])
    printed = json.loads(json.dumps(fine_tuned_run.to_json(), allow_nan=False))
    assert printed["run"] == str(fine_tuned_run.folder)
    assert printed["metrics"]["accuracy"].keys() == {"value", "low", "high"}
    assert (printed["cost"]["tokens per second"] > 0, printed["seeds"]) == (True, [])


def test_the_same_seed_gives_the_same_bytes(tiny: str, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", make_sentiment_rows(40))
    runs = [train(rows, output=tmp_path / str(n), model=tiny, seed=seed, **SHORT) for n, seed in enumerate((5, 5, 6))]
    weights, same_seed_weights, other_seed_weights = ((run.folder / "model.safetensors").read_bytes() for run in runs)
    assert weights == same_seed_weights
    assert weights != other_seed_weights
    assert read_trained(runs[0])["data"] == read_trained(runs[1])["data"] != read_trained(runs[2])["data"]
    assert [line["loss"] for line in read_log_lines(runs[0].folder)] == [
        line["loss"] for line in read_log_lines(runs[1].folder)
    ]


def test_rows_in_memory_and_in_a_file_give_the_same_model(tiny: str, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv", make_sentiment_rows(40))
    runs = [
        train(rows, output=tmp_path / str(n), model=tiny, **SHORT)
        for n, rows in enumerate((file, make_sentiment_rows(40)))
    ]
    weights_from_file, weights_from_memory = ((run.folder / "model.safetensors").read_bytes() for run in runs)
    assert weights_from_file == weights_from_memory


def test_several_seeds_keep_the_best_on_dev(tiny: str, tmp_path: Path) -> None:
    started: list[tuple[int, int, int]] = []
    events = RunEvents(seed_started=lambda *seed: started.append(seed))
    rows = [
        {**row, "split": ("train", "train", "dev", "test")[n % 4]} for n, row in enumerate(make_sentiment_rows(120))
    ]
    run = train(rows, output=tmp_path / "run", model=tiny, seeds=3, seed=4, events=events, **SHORT)
    assert started == [(4, 0, 3), (5, 1, 3), (6, 2, 3)]
    assert [score.seed for score in run.seeds] == [4, 5, 6]
    assert read_trained(run)["seeds"] == [4, 5, 6]
    best_seed = max(run.seeds, key=lambda score: (score.dev or 0, -score.seed))
    assert run.evaluations["dev"].value == best_seed.dev
    assert run.evaluations["test"].value == best_seed.test
    assert run.over_seeds["dev"]["mean"] == pytest.approx(sum(score.dev or 0 for score in run.seeds) / 3)
    single = train(rows, output=tmp_path / "alone", model=tiny, seed=best_seed.seed, **SHORT)
    weights = [(folder / "model.safetensors").read_bytes() for folder in (run.folder, single.folder)]
    assert weights[0] == weights[1]
    single_files = {path.name for path in single.folder.iterdir()} - {"state", "log.jsonl"}
    assert single_files | {"seeds"} <= {path.name for path in run.folder.iterdir()}
    assert [(stored["seed"], stored["dev"]) for stored in run.to_json()["seeds"]] == [
        (score.seed, score.dev) for score in run.seeds
    ]
    assert predict(run.folder, rows) == predict(single.folder, rows)


@pytest.mark.parametrize("metric", ["log_loss", "roc_auc", "pr_auc"])
def test_the_epoch_is_chosen_by_the_given_metric(metric: str, tiny: str, tmp_path: Path) -> None:
    rows = make_sentiment_rows(150)
    settings: dict[str, Any] = {"epochs": 4, "learning_rate": 3e-3, "batch_size": 16, "dev_share": 0.4}
    run = train(rows, output=tmp_path / "run", model=tiny, metric=metric, **settings)
    scores = [line["score"] for line in read_log_lines(run.folder) if "score" in line]
    assert len(set(scores)) > 1
    # epochs are compared before the temperature is fitted
    uncalibrated = replace(load_predictor(run.folder), calibration=Calibration())
    value = evaluate(uncalibrated, rows, part="dev").metrics[metric].value
    assert (-value if metric == "log_loss" else value) == pytest.approx(max(scores), abs=1e-6)
    assert run.evaluations["dev"].main == metric
    assert read_trained(run)["settings"]["metric"] == metric


def test_patience_stops_early(tiny: str, tmp_path: Path) -> None:
    run = train(make_sentiment_rows(60), output=tmp_path / "run", model=tiny, epochs=12, patience=1, learning_rate=1e-7)
    scores = [line["score"] for line in read_log_lines(run.folder) if "score" in line]
    assert len(scores) == 2  # the second is no better than the first


def test_class_weights_raise_the_probability_of_a_rare_class(tiny: str, tmp_path: Path) -> None:
    good, bad = ([row for row in make_sentiment_rows(400) if row["label"] == label] for label in ("good", "bad"))
    rows = [*good[:150], *bad[:15]]
    answers = {}
    for weight in ("none", "auto"):
        run = train(
            rows, output=tmp_path / weight, model=tiny, class_weight=weight, epochs=2, learning_rate=1e-3, batch_size=32
        )
        answers[weight] = [answer.probabilities["bad"] for answer in predict(run.folder, rows)]
    assert sum(answers["auto"]) > 2 * sum(answers["none"])


def test_the_number_of_epochs_depends_on_the_dataset_size(tiny: str, tmp_path: Path) -> None:
    settings = RunPlan().settings
    assert resolve_epochs(100_000, settings) == settings
    assert settings.epochs == 3
    assert [resolve_epochs(rows, settings).epochs for rows in (1000, 10)] == [5, 20]
    assert [resolve_epochs(rows, settings, label_count=77).epochs for rows in (180, 600)] == [40, 20]
    assert resolve_epochs(2_700, settings, label_count=77).epochs == 10  # ten epochs for many labels
    assert resolve_epochs(2_700, settings, label_count=77, uses_probe=True).epochs == 6  # six with a probed head
    # a new head has few steps to learn
    assert (resolve_epochs(10, settings).head_learning_rate or 0) > settings.learning_rate
    messages: list[str] = []
    train(make_sentiment_rows(20), output=tmp_path / "run", model=tiny, events=RunEvents(message=messages.append))
    assert "epochs: 20 (chosen from the dataset size; override with epochs)" in messages
    assert any(
        message.startswith("task: classify (one text, one or more labels; 2 labels: bad, good)") for message in messages
    )


def test_an_abstain_threshold_is_fitted_and_used(reviews: Path, tmp_path: Path) -> None:
    noisy = [{**row, "label": "good" if n % 5 == 0 else row["label"]} for n, row in enumerate(make_sentiment_rows(300))]
    run = train(noisy, output=tmp_path / "run", method="tfidf", target_accuracy=0.97, dev_share=0.3)
    threshold = read_trained(run)["abstain_below"]
    assert 0.5 < threshold < 1
    assert run.notes[0].startswith(f"The model abstains below a confidence of {threshold:.3f}: it answers ")
    answers = predict(run.folder, make_sentiment_rows(100, seed=7))
    abstained = [answer for answer in answers if answer.abstained]
    assert 0 < len(abstained) < 100
    assert all(answer.label is None and (answer.probability or 0) < threshold for answer in abstained)
    assert all(answer.label is not None for answer in answers if not answer.abstained)
    assert evaluate(run.folder, make_sentiment_rows(100, seed=7)).abstained == len(abstained)


def test_a_loss_that_does_not_fall_is_reported(tiny: str, tmp_path: Path) -> None:
    rows = [{"text": row["text"], "label": "xy"[n % 2]} for n, row in enumerate(make_sentiment_rows(60))]
    run = train(rows, output=tmp_path / "run", model=tiny, epochs=1, learning_rate=1e-7)
    assert run.notes[0].startswith("The training loss is ")
    assert "the learning rate 1e-07 is too low" in run.notes[0]


def make_file(folder: Path) -> None:
    folder.write_text("a file")


def make_used_folder(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")


def make_unfinished_run(folder: Path) -> None:
    folder.mkdir()
    (folder / "run.json").write_text("{}")


@pytest.mark.parametrize(
    ("make_folder", "message"),
    [
        (make_file, "already exists and is not empty; name another one with output"),
        (make_used_folder, "already exists and is not empty; name another one with output"),
        (make_unfinished_run, "contains an unfinished run; resume it with resume="),
    ],
)
def test_a_used_output_folder_is_refused(make_folder: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    make_folder(tmp_path / "run")
    with pytest.raises(InputError, match=message):
        train(make_sentiment_rows(20), output=tmp_path / "run", method="majority")


def test_an_empty_folder_is_accepted_and_a_finished_run_is_not(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    train(make_sentiment_rows(20), output=tmp_path / "run", method="majority")
    with pytest.raises(InputError, match="already exists and is not empty"):
        train(make_sentiment_rows(20), output=tmp_path / "run", method="majority")


def test_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ClearheadError, match="cannot be created: Not a directory"):
        train(make_sentiment_rows(20), output=tmp_path / "file" / "run", method="majority")


def test_default_run_folders_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "my.reviews.csv", make_sentiment_rows(20))
    names = [str(train("my.reviews.csv", method="majority").folder) for _ in range(3)]
    assert names == ["runs/my", "runs/my-2", "runs/my-3"]
    assert str(train(make_sentiment_rows(20), method="majority").folder) == "runs/rows"


@pytest.mark.parametrize("source", [None, 5, [], "nowhere.csv", [1, 2], {"text": "a"}], ids=str)
def test_invalid_sources_are_refused(source: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        train(source, output=tmp_path / "run", method="majority")
    assert not (tmp_path / "run").exists()


def test_several_seeds_print_strict_json(tmp_path: Path) -> None:
    run = train(make_scored_rows(60), output=tmp_path / "run", method="tfidf", seeds=2, **QUICK)
    assert json.loads(json.dumps(run.to_json(), allow_nan=False))["seeds"][0]["seed"] == 0
