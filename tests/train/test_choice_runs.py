"""Multiple-choice runs, from a file to predictions, with any number of options and the labels of the file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from clearhead.api import evaluate, load_predictor, predict, predict_file, train
from clearhead.errors import InputError
from clearhead.predict.stream import answer_chunks
from clearhead.train.finish import Run
from tests.task_rows import QUICK, make_option_rows
from tests.tiny_models import write_csv


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("options")


@pytest.fixture(scope="module")
def quiz(folder: Path) -> Path:
    return write_csv(folder / "quiz.csv", make_option_rows(200))


@pytest.fixture(scope="module")
def chooser(tiny: str, quiz: Path, folder: Path) -> Run:
    return train(quiz, output=folder / "chooser", model=tiny, epochs=6, learning_rate=3e-3, batch_size=16)


@pytest.mark.learns
def test_training_and_evaluation(chooser: Run, folder: Path) -> None:
    evaluation = evaluate(chooser.folder, write_csv(folder / "fresh.csv", make_option_rows(60, seed=9))).to_json()
    assert (evaluation["task"], evaluation["kind"], evaluation["main"]) == ("choice", "options", "accuracy")
    assert evaluation["metrics"]["accuracy"]["value"] >= 0.9
    assert evaluation["windowed"] == 0
    assert chooser.evaluations["test"].windowed == 0
    assert chooser.report is not None
    assert "option 1" in chooser.report.read_text()


def test_held_out_rows_can_be_measured_again(chooser: Run, quiz: Path) -> None:
    evaluation = evaluate(chooser.folder, quiz, part="dev")
    assert evaluation.metrics["accuracy"].value == pytest.approx(chooser.evaluations["dev"].metrics["accuracy"].value)


@pytest.mark.learns
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_predictions_keep_the_columns(chooser: Run, ending: str, tmp_path: Path) -> None:
    rows = make_option_rows(40, seed=4)
    source = write_csv(tmp_path / "in.csv", rows)
    predict_file(chooser.folder, source, tmp_path / f"out{ending}")
    text = (tmp_path / f"out{ending}").read_text()
    predictions = (
        list(csv.DictReader(text.splitlines())) if ending == ".csv" else list(map(json.loads, text.splitlines()))
    )
    correct_count = 0
    for row, prediction in zip(rows, predictions, strict=True):
        assert {name: prediction[name] for name in row} == row
        probs = json.loads(prediction["probabilities"]) if ending == ".csv" else prediction["probabilities"]
        assert len(probs) == sum(bool(row[f"option{number}"]) for number in range(1, 5))
        assert sum(probs) == pytest.approx(1.0, abs=1e-4)
        assert "ABCD"[probs.index(max(probs))] == prediction["prediction"]
        correct_count += prediction["prediction"] == row["label"]
    assert correct_count >= 36


def test_probabilities_have_a_column_for_each_option(chooser: Run, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "in.csv", make_option_rows(20, seed=4))
    predict_file(chooser.folder, source, tmp_path / "out.csv", probabilities=True, prefix="p_")
    for row in csv.DictReader((tmp_path / "out.csv").read_text().splitlines()):
        cells = [row[f"p_probability:option{number}"] for number in range(1, 5)]
        assert [bool(cell) for cell in cells] == [bool(row[f"option{number}"]) for number in range(1, 5)]
        assert [float(cell) for cell in cells if cell] == json.loads(row["p_probabilities"])
    rows_with_lists = [{"question": "was it", "options": ["good", "bad"]}]
    with pytest.raises(InputError, match="lists the probabilities of all options in one column; omit probabilities"):
        predict_file(chooser.folder, rows_with_lists, tmp_path / "no.csv", options="options", probabilities=True)
    assert not (tmp_path / "no.csv").exists()


def test_predictions_do_not_depend_on_the_order_of_options(chooser: Run) -> None:
    for row in make_option_rows(20, seed=7):
        texts = [row[f"option{number}"] for number in range(1, 5) if row[f"option{number}"]]
        questions = [
            {"question": row["question"], "options": texts},
            {"question": row["question"], "options": texts[::-1]},
        ]
        prediction, reversed_prediction = predict(chooser.folder, questions, options="options")
        assert prediction.option is not None
        assert reversed_prediction.option is not None
        assert texts[prediction.option] == texts[::-1][reversed_prediction.option]


def test_equal_options_keep_their_own_probabilities(tiny: str, tmp_path: Path) -> None:
    rows = [{"question": "was it", "options": ["good", "bad"], "answer": "good"} for _ in range(40)]
    run = train(rows, output=tmp_path / "run", model=tiny, epochs=1, task="choice", **QUICK)
    prediction = predict(run.folder, [{"question": "was it", "options": ["bad", "bad", "good"]}])[0]
    assert len(prediction.probabilities) == 3
    assert sum(prediction.probabilities.values()) == pytest.approx(1.0)


def test_models_with_different_numbers_of_options_can_be_compared(
    chooser: Run, tiny: str, quiz: Path, tmp_path: Path
) -> None:
    rows = [row for row in make_option_rows(160, seed=2) if not row["option4"]]
    three_option_run = train(
        write_csv(tmp_path / "few.csv", rows), output=tmp_path / "few", model=tiny, epochs=2, **QUICK
    )
    assert len(load_predictor(three_option_run.folder).space) == 3
    assert set(evaluate(chooser.folder, quiz, against=three_option_run.folder).against) == {"accuracy", "log_loss"}


def test_a_resumed_prediction_writes_the_same_bytes(
    chooser: Run, quiz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = load_predictor(chooser.folder)
    monkeypatch.setattr(answer_chunks, "__kwdefaults__", {"labels": None, "skip": 0, "chunk": 50})
    predict_file(predictor, quiz, tmp_path / "whole.csv")
    reported = []

    def stop(done: int, total: int | None) -> None:
        reported.append(done)
        if len(reported) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict_file(predictor, quiz, tmp_path / "half.csv", progress=stop)
    assert predict_file(predictor, quiz, tmp_path / "half.csv").resumed > 0
    assert (tmp_path / "half.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
