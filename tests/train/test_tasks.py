"""Every task with train, evaluate and predict, and the same predictions from files and Python values."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from clearhead.api import evaluate, predict, predict_file, train
from clearhead.train.finish import Run
from tests.rows import QUICK, Rows, make_multilabel_rows, make_pair_rows, make_scored_rows
from tests.tiny_models import NEGATIVE_WORDS, NEUTRAL_WORDS, POSITIVE_WORDS, make_sentiment_rows, write_csv


def compute_transformers_logits(
    folder: Path, texts: Sequence[str], second_texts: Sequence[str] | None = None
) -> np.ndarray:
    """The logits of transformers with the same folder."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(
        list(texts), None if second_texts is None else list(second_texts), return_tensors="pt", padding=True
    )
    with torch.no_grad():
        return model(**inputs).logits.double().numpy()


@pytest.mark.learns
def test_two_classes(fine_tuned_run: Run, reviews: Path) -> None:
    assert (fine_tuned_run.task, fine_tuned_run.method, fine_tuned_run.labels) == (
        "classify",
        "finetune",
        ("bad", "good"),
    )
    assert fine_tuned_run.columns == {"text": "text", "label": "label", "id": "id"}
    assert fine_tuned_run.rows == {"train": 160, "dev": 20, "test": 20}
    assert fine_tuned_run.measured_on == "test"
    assert fine_tuned_run.metrics["accuracy"].value > 0.9
    assert evaluate(fine_tuned_run.folder, reviews).metrics["accuracy"].value > 0.95
    predictions = predict(fine_tuned_run.folder, ["it was good", "it was awful"])
    assert [answer.label for answer in predictions] == ["good", "bad"]
    assert [answer.row for answer in predictions] == [1, 2]
    for answer in predictions:
        assert sum(answer.probabilities.values()) == pytest.approx(1)
        assert answer.probability == max(answer.probabilities.values())


@pytest.mark.learns
def test_three_classes_of_integers(tiny: str, tmp_path: Path) -> None:
    generator, words = random.Random(0), ("good", "bad", "film")
    filler = [word for word in NEUTRAL_WORDS if word not in words]
    rows = [
        {"text": f"{generator.choice(filler)} {words[index % 3]} {generator.choice(filler)}", "label": index % 3 * 5}
        for index in range(120)
    ]
    run = train(rows, output=tmp_path / "run", model=tiny, epochs=12, learning_rate=2e-3, batch_size=8)
    assert run.labels == ("0", "5", "10")  # sorted by value, not as text
    assert run.metrics["accuracy"].value > 0.8
    assert "f1" not in run.metrics
    evaluation = evaluate(run.folder, rows)
    assert evaluation.confusion is not None
    assert [sum(row) for row in evaluation.confusion] == [40, 40, 40]
    predicted = [answer.label for answer in predict(run.folder, rows)]
    correct_count = sum(label == str(row["label"]) for label, row in zip(predicted, rows, strict=True))
    assert int(np.trace(evaluation.confusion)) == correct_count > 110


def test_files_and_python_values_have_the_same_predictions(fine_tuned_run: Run, reviews: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rows = make_sentiment_rows(200)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = predict(fine_tuned_run.folder, reviews)
    texts = [row["text"] for row in rows]
    for source in (rows, texts, pandas.DataFrame(rows), {"text": texts}, tmp_path / "rows.jsonl"):
        assert predict(fine_tuned_run.folder, source) == expected
    predict_file(fine_tuned_run.folder, reviews, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        rows_written = list(csv.DictReader(file))
    assert [row["prediction"] for row in rows_written] == [answer.label for answer in expected]
    assert [row["probability"] for row in rows_written] == [
        str(round(answer.probability or 0, 6)) for answer in expected
    ]


@pytest.mark.learns
@pytest.mark.parametrize("label_format", ["list", "separator"])
def test_several_labels_in_a_list_or_with_a_separator(label_format: str, tmp_path: Path) -> None:
    rows = make_multilabel_rows(200)
    if label_format == "list":
        source = tmp_path / "rows.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        joined = [{"text": row["text"], "labels": "|".join(row["labels"])} for row in rows]
        source = write_csv(tmp_path / "rows.csv", joined)
    run = train(source, output=tmp_path / "run", method="tfidf")
    assert (run.task, run.labels) == ("classify", ("bad", "film", "good"))
    assert run.evaluations["test"].kind == "multilabel"
    assert run.metrics["f1_micro"].value > 0.95
    answers = predict(run.folder, source)
    assert sum(answer.labels == tuple(row["labels"]) for answer, row in zip(answers, rows, strict=True)) > 190
    assert any(answer.labels == () for answer in answers)  # no label at all is a valid prediction
    assert evaluate(run.folder, source).metrics["subset_accuracy"].value > 0.95


def test_every_label_of_a_network_has_its_own_threshold(multilabel_run: Run) -> None:
    passport = json.loads((multilabel_run.folder / "clearhead.json").read_text())["trained"]
    assert passport["kind"] == "multilabel"
    assert len(passport["thresholds"]) == 3
    assert len(set(passport["thresholds"])) > 1
    rows = make_multilabel_rows(40, seed=9)
    answers = predict(multilabel_run.folder, rows)
    for answer in answers:
        is_above = [
            probability >= threshold
            for probability, threshold in zip(answer.probabilities.values(), passport["thresholds"], strict=True)
        ]
        assert answer.labels == tuple(
            name for name, is_set in zip(multilabel_run.labels, is_above, strict=True) if is_set
        )
    logits = compute_transformers_logits(multilabel_run.folder, [row["text"] for row in rows])
    probabilities = np.array([list(answer.probabilities.values()) for answer in answers])
    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-logits / passport["temperature"])), atol=1e-5)


@pytest.mark.learns
def test_a_pair_reads_both_texts(pair_run: Run) -> None:
    assert (pair_run.task, pair_run.labels) == ("pair", ("other", "same"))
    assert pair_run.columns == {"text": "sentence1", "text_b": "sentence2", "label": "label"}
    assert pair_run.metrics["accuracy"].value > 0.9
    rows = make_pair_rows(60, seed=5)
    assert evaluate(pair_run.folder, rows).metrics["accuracy"].value > 0.9
    swapped = [{"sentence1": row["sentence2"], "sentence2": row["sentence1"]} for row in rows]
    original, reversed_order = predict(pair_run.folder, rows), predict(pair_run.folder, swapped)
    assert [answer.probability for answer in original] != [answer.probability for answer in reversed_order]


def test_transformers_computes_the_same_for_pairs(pair_run: Run) -> None:
    rows = make_pair_rows(20, seed=6)
    temperature = json.loads((pair_run.folder / "clearhead.json").read_text())["trained"]["temperature"]
    logits = compute_transformers_logits(
        pair_run.folder, [row["sentence1"] for row in rows], [row["sentence2"] for row in rows]
    )
    exponentials = np.exp(logits / temperature)
    probabilities = np.array([list(answer.probabilities.values()) for answer in predict(pair_run.folder, rows)])
    np.testing.assert_allclose(probabilities, exponentials / exponentials.sum(1, keepdims=True), atol=1e-5)


def test_an_aspect_column_is_a_second_text(tiny: str, tmp_path: Path) -> None:
    rows = [
        {"sentence": f"the film was {word} but it was some music", "aspect": aspect, "polarity": label}
        for word, label in ((POSITIVE_WORDS[0], "positive"), (NEGATIVE_WORDS[0], "negative"))
        for aspect in ("film", "music")
        for _ in range(10)
    ]
    run = train(rows, output=tmp_path / "run", model=tiny, epochs=1, **QUICK)
    assert run.task == "pair"
    assert run.columns == {"text": "sentence", "text_b": "aspect", "label": "polarity"}


def list_scores(rows: Rows) -> list[float]:
    return [row["score"] for row in rows]


@pytest.mark.learns
def test_predicted_numbers_have_the_unit_of_the_targets(regression_run: Run) -> None:
    assert (regression_run.task, regression_run.labels) == ("regress", ())
    rows = make_scored_rows(60, seed=7)
    values = np.array([answer.value for answer in predict(regression_run.folder, rows)], np.float64)
    assert np.abs(values - list_scores(rows)).mean() < 100  # the standard deviation is 300
    assert evaluate(regression_run.folder, rows).metrics["mae"].value == pytest.approx(
        np.abs(values - list_scores(rows)).mean()
    )
    assert regression_run.metrics["r2"].value > 0.8
    np.testing.assert_allclose(
        compute_transformers_logits(regression_run.folder, [row["text"] for row in rows])[:, 0], values, rtol=1e-5
    )
    answer = predict(regression_run.folder, rows[:1])[0]
    assert (answer.label, answer.labels, answer.probability, answer.probabilities) == (None, None, None, {})


@pytest.mark.learns
def test_regression_on_two_texts(tiny: str, tmp_path: Path) -> None:
    run = train(make_scored_rows(160, has_two_texts=True), output=tmp_path / "run", model=tiny, epochs=10, **QUICK)
    assert run.task == "regress"
    assert run.columns == {"text": "sentence1", "text_b": "sentence2", "label": "score"}
    rows = make_scored_rows(40, seed=8, has_two_texts=True)
    values = np.array([answer.value for answer in predict(run.folder, rows)], np.float64)
    assert np.abs(values - list_scores(rows)).mean() < 100
    logits = compute_transformers_logits(
        run.folder, [row["sentence1"] for row in rows], [row["sentence2"] for row in rows]
    )
    np.testing.assert_allclose(logits[:, 0], values, rtol=1e-5)


@pytest.mark.learns
def test_the_chosen_epoch_of_a_regression_has_varied_predictions(regression_run: Run) -> None:
    """A high correlation is not enough: even an epoch with nearly equal predictions can have one."""
    values = np.array(
        [answer.value for answer in predict(regression_run.folder, make_scored_rows(60, seed=7))], np.float64
    )
    assert 150 < values.std() < 450


def test_numbers_are_classes_on_request(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"text": f"it was {index}", "stars": index % 7 + 0.5} for index in range(70)]
    assert train(rows, output=tmp_path / "number", method="majority").task == "regress"
    run = train(rows, output=tmp_path / "classes", method="majority", task="classify")
    assert run.labels == ("0.5", "1.5", "2.5", "3.5", "4.5", "5.5", "6.5")
    integer_rows = [{"text": f"it was {index}", "stars": index % 5} for index in range(60)]
    assert train(integer_rows, output=tmp_path / "whole", method="majority", task="regress").task == "regress"
