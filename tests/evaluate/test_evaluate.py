"""Evaluation: metrics of the predictions, slices, paired comparison of two models, and the report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    f1_score,
    log_loss,
    matthews_corrcoef,
    roc_auc_score,
)

from clearhead import metrics
from clearhead.api import evaluate, load_predictor, predict, train
from clearhead.errors import InputError
from clearhead.train.finish import Run
from tests.rows import make_multilabel_rows, make_pair_rows, make_scored_rows
from tests.tiny_models import make_sentiment_rows, write_csv


def make_noisy_rows(count: int = 120, seed: int = 5) -> list[dict[str, str]]:
    """Make reviews with some wrong labels, and a column to slice by."""
    flipped = {"good": "bad", "bad": "good"}
    return [
        {
            **row,
            "label": flipped[row["label"]] if number % 7 == 0 else row["label"],
            "shop": "north" if number % 7 == 0 else "south",
        }
        for number, row in enumerate(make_sentiment_rows(count, seed))
    ]


def test_metrics_are_those_of_the_predictions(fine_tuned_run: Run) -> None:
    rows = make_noisy_rows()
    evaluation = evaluate(fine_tuned_run.folder, rows)
    answers = predict(fine_tuned_run.folder, rows)
    truth, predicted = [row["label"] for row in rows], [answer.label for answer in answers]
    probabilities = [answer.probabilities["good"] for answer in answers]
    label_ids = np.array([label == "good" for label in truth]).astype(int)
    expected = {
        "accuracy": accuracy_score(truth, predicted),
        "balanced_accuracy": balanced_accuracy_score(truth, predicted),
        "f1_macro": f1_score(truth, predicted, average="macro"),
        "f1_weighted": f1_score(truth, predicted, average="weighted"),
        "f1": f1_score(truth, predicted, pos_label="good"),
        "matthews": matthews_corrcoef(truth, predicted),
        "roc_auc": roc_auc_score(label_ids, probabilities),
        "log_loss": log_loss(label_ids, probabilities),
    }
    assert {name: evaluation.metrics[name].value for name in expected} == pytest.approx(expected)
    probs = np.array([list(answer.probabilities.values()) for answer in answers])
    expected_intervals = metrics.measure("classify", label_ids, probs.argmax(1), probs, classes=2)
    assert {name: metric.low for name, metric in evaluation.metrics.items()} == {
        name: metric.low for name, metric in expected_intervals.items()
    }
    assert evaluation.rows == 120
    assert evaluation.confusion is not None
    assert sum(map(sum, evaluation.confusion)) == 120


def test_several_labels_and_numbers(multilabel_run: Run, regression_run: Run) -> None:
    rows = make_multilabel_rows(50, seed=2)
    truth = np.array([[name in row["labels"] for name in multilabel_run.labels] for row in rows])
    predicted = np.array(
        [
            [name in (answer.labels or ()) for name in multilabel_run.labels]
            for answer in predict(multilabel_run.folder, rows)
        ]
    )
    evaluation = evaluate(multilabel_run.folder, rows)
    assert evaluation.metrics["f1_micro"].value == pytest.approx(f1_score(truth, predicted, average="micro"))
    assert [score.rows for score in evaluation.label_scores] == truth.sum(0).tolist()
    values = np.array([answer.value for answer in predict(regression_run.folder, make_scored_rows(50, 2))], np.float64)
    scores = np.array([row["score"] for row in make_scored_rows(50, 2)])
    assert evaluate(regression_run.folder, make_scored_rows(50, 2)).metrics["pearson"].value == pytest.approx(
        np.corrcoef(values, scores)[0, 1]
    )


def test_slices_by_columns_length_and_label(tfidf_run: Run) -> None:
    evaluation = evaluate(tfidf_run.folder, make_noisy_rows(), slices=["shop", "id"])
    slices_by_column = {
        column: [slice_score for slice_score in evaluation.slices if slice_score.column == column]
        for column in ("shop", "id", "label")
    }
    correct = [
        answer.label == row["label"]
        for answer, row in zip(predict(tfidf_run.folder, make_noisy_rows()), make_noisy_rows(), strict=True)
    ]
    for slice_score in slices_by_column["shop"]:
        correct_in_slice = [
            is_correct
            for is_correct, row in zip(correct, make_noisy_rows(), strict=True)
            if row["shop"] == slice_score.name
        ]
        assert slice_score.rows == len(correct_in_slice)
        assert slice_score.value == pytest.approx(np.mean(correct_in_slice))
    assert {slice_score.name for slice_score in slices_by_column["shop"]} == {"north", "south"}
    assert {slice_score.name for slice_score in slices_by_column["label"]} == {"bad", "good"}
    assert sum(slice_score.rows for slice_score in slices_by_column["id"]) == 120
    assert (
        sum(slice_score.rows for slice_score in evaluation.slices if slice_score.column == "length in characters")
        == 120
    )
    with pytest.raises(
        InputError, match="the list has no column 'city' for slices; its columns are id, text, label, shop"
    ):
        evaluate(tfidf_run.folder, make_noisy_rows(), slices=["city"])


@pytest.mark.learns
def test_two_models_on_the_same_rows(tfidf_run: Run, fine_tuned_run: Run, tmp_path: Path) -> None:
    floor = train(make_sentiment_rows(200), output=tmp_path / "floor", method="majority")
    evaluation = evaluate(tfidf_run.folder, make_noisy_rows(), against=floor.folder)
    floor_evaluation = evaluate(floor.folder, make_noisy_rows())
    paired_accuracy = evaluation.against["accuracy"]
    assert paired_accuracy.difference == pytest.approx(
        evaluation.metrics["accuracy"].value - floor_evaluation.metrics["accuracy"].value
    )
    assert 0 < paired_accuracy.low <= paired_accuracy.difference <= paired_accuracy.high
    assert paired_accuracy.p < 0.01
    reversed_evaluation = evaluate(floor.folder, make_noisy_rows(), against=load_predictor(tfidf_run.folder))
    assert reversed_evaluation.against["accuracy"].difference == pytest.approx(-paired_accuracy.difference)
    same_model = evaluate(tfidf_run.folder, make_noisy_rows(), against=tfidf_run.folder)
    assert (same_model.against["accuracy"].difference, same_model.against["accuracy"].p) == (0, 1)
    assert json.loads(json.dumps(evaluation.to_json(), allow_nan=False))["against"]["accuracy"]["p"] < 0.01


def test_each_of_two_models_reads_its_own_columns(pair_run: Run, tmp_path: Path) -> None:
    """One model reads both texts, the other only the first."""
    rows = make_pair_rows(80, seed=3)
    single_texts = [{"text": row["sentence1"], "label": row["label"]} for row in make_pair_rows(100)]
    first = train(single_texts, output=tmp_path / "first", method="tfidf")
    difference = evaluate(pair_run.folder, rows, against=first.folder).against["accuracy"].difference
    single_accuracy = evaluate(first.folder, rows, text="sentence1").metrics["accuracy"].value
    assert difference == pytest.approx(evaluate(pair_run.folder, rows).metrics["accuracy"].value - single_accuracy)
    reversed_difference = (
        evaluate(first.folder, rows, text="sentence1", against=pair_run.folder).against["accuracy"].difference
    )
    assert reversed_difference == pytest.approx(-difference)


def test_two_models_are_measured_against_the_same_labels(tfidf_run: Run, tmp_path: Path) -> None:
    """The other model was trained on a label column of another name, which has different content here."""
    rows = [{"text": row["text"], "mood": row["label"]} for row in make_sentiment_rows(100)]
    other_run = train(rows, output=tmp_path / "other", method="tfidf")
    conflicting = [{**row, "mood": "bad"} for row in make_sentiment_rows(40, seed=2)]
    difference = evaluate(tfidf_run.folder, conflicting, against=other_run.folder).against["accuracy"].difference
    other_accuracy = evaluate(other_run.folder, conflicting, label="label").metrics["accuracy"].value
    assert difference == pytest.approx(
        evaluate(tfidf_run.folder, conflicting).metrics["accuracy"].value - other_accuracy
    )


def test_models_that_cannot_be_compared(tfidf_run: Run, regression_run: Run, multilabel_run: Run) -> None:
    for other_run in (regression_run, multilabel_run):
        with pytest.raises(InputError, match=r"predicts other labels than .*; compare models with the same labels"):
            evaluate(tfidf_run.folder, make_sentiment_rows(10), against=other_run.folder)
    with pytest.raises(InputError, match="can be read only once; write it to a file to compare two models"):
        evaluate(tfidf_run.folder, (row for row in make_sentiment_rows(10)), against=tfidf_run.folder)


def test_rows_that_can_be_read_once_are_enough_for_one_model(tfidf_run: Run) -> None:
    evaluation = evaluate(tfidf_run.folder, (row for row in make_sentiment_rows(2500, seed=3)))
    assert evaluation.rows == 2500


def test_a_page_about_it(tfidf_run: Run, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "<b>rows.csv", make_noisy_rows())
    evaluate(tfidf_run.folder, file, report=tmp_path / "sub" / "page.html", command="clearhead evaluate <x>")
    page = (tmp_path / "sub" / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "&lt;b&gt;rows.csv" in page
    assert "clearhead evaluate &lt;x&gt;" in page
    assert "<b>rows" not in page


def test_labels_that_are_not_there(tfidf_run: Run, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"No column of the list looks like a label: .* Name the label column with label="
    ):
        evaluate(tfidf_run.folder, [{"text": row["text"]} for row in make_sentiment_rows(10)])
    with pytest.raises(InputError, match="has no column 'stars' for label"):
        evaluate(tfidf_run.folder, make_sentiment_rows(10), label="stars")
    rows = make_sentiment_rows(10)
    rows[3]["label"] = ""
    rows[5]["label"] = "meh"
    rows[6]["text"] = " "
    with pytest.raises(InputError) as caught:
        evaluate(tfidf_run.folder, rows)
    for message in (
        "3 of 10 rows cannot be used",
        "row 4: the label is missing",
        "row 6: label 'meh' is not one of bad, good",
    ):
        assert message in str(caught.value)
    evaluation = evaluate(tfidf_run.folder, rows, skip_bad_rows=True)
    assert (evaluation.rows, evaluation.skipped) == (7, {"missing label": 1, "unknown label": 1, "empty text": 1})
    assert sum(slice_score.rows for slice_score in evaluation.slices if slice_score.column == "label") == 7
    by_id = evaluate(tfidf_run.folder, rows, skip_bad_rows=True, slices=["id"]).slices
    assert {slice_score.name for slice_score in by_id if slice_score.column == "id"} == {
        row["id"] for index, row in enumerate(rows) if index not in (3, 5, 6)
    }
    with pytest.raises(InputError, match="has no usable rows"):
        evaluate(tfidf_run.folder, [{"text": "it was", "label": "meh"}], skip_bad_rows=True)


@pytest.mark.learns
def test_other_columns_than_in_training_can_be_said(tfidf_run: Run) -> None:
    rows = [{"body": row["text"], "answer": row["label"], "title": "it was good"} for row in make_sentiment_rows(40)]
    evaluation = evaluate(tfidf_run.folder, rows, text="body", label="answer")
    assert evaluation.metrics["accuracy"].value > 0.9
    assert evaluate(tfidf_run.folder, rows, text="title", label="answer").metrics["accuracy"].value < 0.7


def test_the_rows_are_told_as_they_go(tfidf_run: Run) -> None:
    reports: list[int] = []
    evaluate(tfidf_run.folder, make_sentiment_rows(2100), progress=reports.append)
    assert reports == [1024, 2048, 2100]


@pytest.mark.parametrize("rows", [1, 2])
def test_a_row_or_two_are_measured_as_far_as_that_goes(rows: int, tfidf_run: Run) -> None:
    evaluation = evaluate(tfidf_run.folder, make_sentiment_rows(rows))
    document = json.loads(json.dumps(evaluation.to_json(), allow_nan=False))
    assert document["rows"] == rows
    assert document["metrics"]["accuracy"]["value"] == 1.0
