"""Parity with sentence-transformers cross-encoders in both directions: both texts are read, and scores are equal."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.api import evaluate, load_predictor, predict, predict_file, train
from clearhead.errors import CheckpointError, InputError
from clearhead.jobs.kinds import kind_of
from clearhead.train.finish import Run
from tests.parity_models import import_transformers
from tests.rows import QUICK, make_pair_rows, make_scored_rows
from tests.tiny_models import make_sentiment_rows, tiny_sentence_encoder, write_csv

PAIRS = [(row["sentence1"], row["sentence2"]) for row in make_pair_rows(12, seed=3)]
MakeCheckpoint = Callable[..., Path]


def load_cross_encoder(folder: Path | str, **choices: Any) -> Any:
    """Load a folder with sentence-transformers."""
    from sentence_transformers import CrossEncoder

    return CrossEncoder(str(folder), device="cpu", local_files_only=True, **choices)


@pytest.fixture(scope="module")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> MakeCheckpoint:
    """Makes a BertForSequenceClassification saved by transformers, with one output by default."""

    def make(label_count: int = 1, **config: Any) -> Path:
        transformers = import_transformers()
        torch.manual_seed(3)
        config_of_tiny = json.loads((Path(tiny) / "config.json").read_text())
        keys = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
        sizes = {key: config_of_tiny[key] for key in (*keys, "max_position_embeddings")}
        model = transformers.BertForSequenceClassification(transformers.BertConfig(**sizes, num_labels=label_count))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        folder = tmp_path_factory.mktemp("foreign")
        model.save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(tiny).save_pretrained(folder)
        saved_config = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps(saved_config))
        return folder

    return make


@pytest.fixture(scope="module")
def reranker(make_checkpoint: MakeCheckpoint) -> Path:
    """A checkpoint with a single output, which no test changes."""
    return make_checkpoint()


def predict_numbers(model: Path, rows: Any) -> list[float]:
    """Predict rows with a regression model."""
    values = [answer.value for answer in predict(model, rows)]
    assert all(value is not None for value in values)
    return [float(value or 0) for value in values]


def name_columns(first: str, second: str) -> list[dict[str, str]]:
    return [{first: a, second: b} for a, b in PAIRS]


@pytest.mark.parametrize(("first", "second"), [("sentence1", "sentence2"), ("query", "passage"), ("text", "text_b")])
def test_columns_of_pairs_are_both_read(first: str, second: str, reranker: Path, tmp_path: Path) -> None:
    expected = load_cross_encoder(reranker).predict(PAIRS)
    rows = name_columns(first, second)
    np.testing.assert_allclose(predict_numbers(reranker, rows), expected, atol=1e-5)
    output = tmp_path / "out.csv"
    predict_file(reranker, write_csv(tmp_path / "in.csv", rows), output)
    with output.open(newline="") as file:
        predicted = [float(row["prediction"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(predicted, expected, atol=1e-4)


def test_evaluate_reads_both(make_checkpoint: MakeCheckpoint, reranker: Path) -> None:
    expected = load_cross_encoder(reranker).predict(PAIRS)
    rows = [
        row | {"score": float(value)}
        for row, value in zip(name_columns("sentence1", "sentence2"), expected, strict=True)
    ]
    evaluation = evaluate(reranker, rows)
    assert evaluation.metrics["pearson"].value == pytest.approx(1)
    assert evaluation.metrics["mae"].value == pytest.approx(0, abs=1e-5)
    comparison = evaluate(reranker, rows, against=make_checkpoint())
    assert comparison.against["pearson"].difference == pytest.approx(0, abs=1e-6)
    classes = make_checkpoint(label_count=3)
    predicted = load_cross_encoder(classes).predict(PAIRS).argmax(-1)
    labeled = [row | {"label": f"LABEL_{label_index}"} for row, label_index in zip(rows, predicted, strict=True)]
    assert evaluate(classes, labeled, label="label").metrics["accuracy"].value == 1


def test_columns_of_texts_that_are_not_read_are_reported(reranker: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [row | {"comment": "this is what somebody thought of it"} for row in name_columns("sentence1", "sentence2")]
    rows = [row | {"url": f"https://example.org/a/long/address/{index}"} for index, row in enumerate(rows)]
    with caplog.at_level(logging.WARNING, "clearhead"):
        predict(reranker, rows)
    assert [record.message for record in caplog.records] == [
        f"{reranker} reads sentence1 and sentence2 and ignores the texts of comment; "
        "choose columns with text and text_b."
    ]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "clearhead"):
        first_text_only = predict(reranker, name_columns("sentence1", "sentence2"), text="sentence1")
    assert "reads sentence1 and ignores the texts of sentence2" in caplog.text
    assert [answer.value for answer in first_text_only] != [
        answer.value for answer in predict(reranker, name_columns("sentence1", "sentence2"))
    ]


def test_a_model_trained_here_says_nothing_of_other_columns(
    fine_tuned_run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [row | {"comment": "this is what somebody thought of it"} for row in make_sentiment_rows(5)]
    with caplog.at_level(logging.WARNING, "clearhead"):
        predict(fine_tuned_run.folder, rows)
    assert not caplog.records


def test_tuples_are_pairs(reranker: Path, pair_run: Run, fine_tuned_run: Run) -> None:
    expected = load_cross_encoder(reranker).predict(PAIRS)
    for pairs in (PAIRS, [list(pair_of_texts) for pair_of_texts in PAIRS], iter(PAIRS), tuple(PAIRS)):
        np.testing.assert_allclose(predict_numbers(reranker, pairs), expected, atol=1e-5)
    assert predict(pair_run.folder, PAIRS) == predict(pair_run.folder, name_columns("sentence1", "sentence2"))
    assert predict(pair_run.folder, [("good", "bad")])[0].label is not None  # even for short texts
    with pytest.raises(InputError, match="reads one text, and the list has two in each row"):
        predict(fine_tuned_run.folder, PAIRS)
    with pytest.raises(InputError, match=r"a tuple, expected .* two texts of a pair as \(text, second text\)"):
        predict(reranker, [("one", "two", "three")])
    with pytest.raises(InputError, match="row 2: a text, but row 1 is a pair of texts; all rows"):
        predict(pair_run.folder, [("one", "two"), "three"])


def test_an_estimator_reads_both(reranker: Path) -> None:
    from clearhead.estimators import TextRegressor

    rows = make_pair_rows(40, seed=1)
    pairs = [(row["sentence1"], row["sentence2"]) for row in rows]
    estimator = TextRegressor(model=str(reranker), epochs=1).fit(pairs, [float(index) for index in range(len(pairs))])
    swapped = [(a, pairs[(index + 1) % len(pairs)][1]) for index, (a, _) in enumerate(pairs)]
    assert not np.allclose(estimator.predict(pairs), estimator.predict(swapped))


@pytest.mark.parametrize("name", ["default", "Identity", "Sigmoid", "Tanh", "ReLU", "Softplus", "LogSigmoid"])
def test_folders_saved_there_score_the_same_here(name: str, reranker: Path, tmp_path: Path) -> None:
    choices = {} if name == "default" else {"activation_fn": getattr(torch.nn, name)()}
    cross_encoder = load_cross_encoder(reranker, **choices)
    cross_encoder.save_pretrained(str(tmp_path / "saved"))
    assert kind_of(tmp_path / "saved") == "reranker"
    expected = cross_encoder.predict(PAIRS)
    np.testing.assert_allclose(predict_numbers(tmp_path / "saved", PAIRS), expected, atol=1e-5)
    clearhead.load(tmp_path / "saved").save(tmp_path / "again")  # saved by clearhead, loaded by sentence-transformers
    np.testing.assert_allclose(load_cross_encoder(tmp_path / "again").predict(PAIRS), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["linear.Identity", "activation.Sigmoid", "activation.Tanh"])
def test_older_folders_keep_it_in_their_config(name: str, make_checkpoint: MakeCheckpoint) -> None:
    path = f"torch.nn.modules.{name}"
    for keys in ({"sentence_transformers": {"activation_fn": path}}, {"sbert_ce_default_activation_function": path}):
        folder = make_checkpoint(**keys)
        expected = load_cross_encoder(folder).predict(PAIRS)
        np.testing.assert_allclose(predict_numbers(folder, PAIRS), expected, atol=1e-5)


def test_activations_that_are_not_known(make_checkpoint: MakeCheckpoint, caplog: pytest.LogCaptureFixture) -> None:
    """No code is imported; sentence-transformers also uses the default instead of untrusted classes."""
    folder = make_checkpoint(sentence_transformers={"activation_fn": "os.system"})
    with caplog.at_level(logging.WARNING, "clearhead"):
        values = predict_numbers(folder, PAIRS)
    np.testing.assert_allclose(values, load_cross_encoder(folder).predict(PAIRS), atol=1e-5)
    assert "has the unknown activation os.system; sigmoid is used instead" in caplog.text
    for path in ("torch.nn.modules.activation.GELU", "torch.nn.Module", "torch.hub.load"):
        with pytest.raises(CheckpointError, match=f"the unsupported activation {path}. Supported: Identity, Sigmoid"):
            load_predictor(make_checkpoint(sentence_transformers={"activation_fn": path}))
    with pytest.raises(CheckpointError, match="expected a string"):
        load_predictor(make_checkpoint(sentence_transformers={"activation_fn": 3}))


def test_a_plain_regression_of_transformers_has_none(make_checkpoint: MakeCheckpoint, reranker: Path) -> None:
    values = predict_numbers(make_checkpoint(problem_type="regression"), PAIRS)
    logits = load_cross_encoder(reranker, activation_fn=torch.nn.Identity()).predict(PAIRS)
    np.testing.assert_allclose(values, logits, atol=1e-5)


def test_numbers_learned_here_are_the_same_there(reranker: Path, tmp_path: Path) -> None:
    sigmoid_folder = tmp_path / "sigmoid"  # the activation of the base model does not apply after training
    load_cross_encoder(reranker, activation_fn=torch.nn.Sigmoid()).save_pretrained(str(sigmoid_folder))
    run = train(
        make_scored_rows(60, has_two_texts=True),
        output=tmp_path / "run",
        model=str(sigmoid_folder),
        epochs=1,
        report=False,
        **QUICK,
    )
    expected = predict_numbers(run.folder, PAIRS)
    assert min(expected) > 10
    np.testing.assert_allclose(load_cross_encoder(run.folder).predict(PAIRS), expected, rtol=1e-5)


def test_pairs_learned_here_are_the_same_there(pair_run: Run) -> None:
    logits = load_cross_encoder(pair_run.folder).predict(PAIRS)
    predictor = load_predictor(pair_run.folder)
    scaled = np.exp(logits / predictor.calibration.temperature)
    expected = scaled / scaled.sum(-1, keepdims=True)
    probabilities = [list(answer.probabilities.values()) for answer in predict(predictor, PAIRS)]
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_heads_on_the_mean_are_the_same_there(kind: str, tmp_path: Path) -> None:
    base = tiny_sentence_encoder(tmp_path / "base")
    rows = make_scored_rows(60, has_two_texts=True) if kind == "numbers" else make_pair_rows(60)
    run = train(rows, output=tmp_path / "run", model=str(base), epochs=1, report=False, **QUICK)
    model = clearhead.load(run.folder)
    assert model.shape.head_pooling == "mean"
    cross_encoder = load_cross_encoder(run.folder)
    cross_encoder.save_pretrained(str(tmp_path / "theirs"))
    model.save(tmp_path / "ours")
    clearhead.convert(run.folder, tmp_path / "converted")
    assert "CrossEncoder" in (Path(run.folder) / "README.md").read_text()
    for folder in (run.folder, tmp_path / "theirs", tmp_path / "ours", tmp_path / "converted"):
        predictor = load_predictor(folder)
        answers = predict(predictor, PAIRS)
        logits = load_cross_encoder(folder).predict(PAIRS)
        if kind == "numbers":
            np.testing.assert_allclose(np.array([answer.value for answer in answers], float), logits, rtol=1e-5)
        else:
            scaled = np.exp(logits / predictor.calibration.temperature)
            probabilities = [list(answer.probabilities.values()) for answer in answers]
            np.testing.assert_allclose(probabilities, scaled / scaled.sum(-1, keepdims=True), atol=1e-5)
