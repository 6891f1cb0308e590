"""Cross-encoders of other people, and ours in their hands: both texts are read, and the numbers are the same."""

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
from tests.rows import QUICK, paired, scored
from tests.tiny_models import labelled, tiny_sentence_encoder, write_csv

PAIRS = [(row["sentence1"], row["sentence2"]) for row in paired(12, seed=3)]
Foreign = Callable[..., Path]


def cross_encoder(folder: Path | str, **choices: Any) -> Any:
    """The folder as sentence-transformers loads it."""
    from sentence_transformers import CrossEncoder

    return CrossEncoder(str(folder), device="cpu", local_files_only=True, **choices)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Foreign:
    """A BertForSequenceClassification that transformers saved: one output unless said."""

    def make(labels: int = 1, **config: Any) -> Path:
        theirs = import_transformers()
        torch.manual_seed(3)
        known = json.loads((Path(tiny) / "config.json").read_text())
        keys = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
        sizes = {key: known[key] for key in (*keys, "max_position_embeddings")}
        model = theirs.BertForSequenceClassification(theirs.BertConfig(**sizes, num_labels=labels))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        folder = tmp_path_factory.mktemp("foreign")
        model.save_pretrained(folder)
        theirs.AutoTokenizer.from_pretrained(tiny).save_pretrained(folder)
        saved = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps(saved))
        return folder

    return make


@pytest.fixture(scope="module")
def reranker(foreign: Foreign) -> Path:
    """One with a single output, which nobody changes."""
    return foreign()


def numbers_of(model: Path, rows: Any) -> list[float]:
    """What a model says of rows, as numbers."""
    found = [one.value for one in predict(model, rows)]
    assert all(value is not None for value in found)
    return [float(value or 0) for value in found]


def named(first: str, second: str) -> list[dict[str, str]]:
    return [{first: a, second: b} for a, b in PAIRS]


@pytest.mark.parametrize(("first", "second"), [("sentence1", "sentence2"), ("query", "passage"), ("text", "text_b")])
def test_columns_of_pairs_are_both_read(first: str, second: str, reranker: Path, tmp_path: Path) -> None:
    expected = cross_encoder(reranker).predict(PAIRS)
    rows = named(first, second)
    np.testing.assert_allclose(numbers_of(reranker, rows), expected, atol=1e-5)
    out = tmp_path / "out.csv"
    predict_file(reranker, write_csv(tmp_path / "in.csv", rows), out)
    with out.open(newline="") as file:
        written = [float(row["prediction"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(written, expected, atol=1e-4)


def test_evaluate_reads_both(foreign: Foreign, reranker: Path) -> None:
    expected = cross_encoder(reranker).predict(PAIRS)
    rows = [row | {"score": float(value)} for row, value in zip(named("sentence1", "sentence2"), expected, strict=True)]
    made = evaluate(reranker, rows)
    assert made.metrics["pearson"].value == pytest.approx(1)
    assert made.metrics["mae"].value == pytest.approx(0, abs=1e-5)
    beside = evaluate(reranker, rows, against=foreign())
    assert beside.against["pearson"].difference == pytest.approx(0, abs=1e-6)
    classes = foreign(labels=3)
    best = cross_encoder(classes).predict(PAIRS).argmax(-1)
    known = [row | {"label": f"LABEL_{place}"} for row, place in zip(rows, best, strict=True)]
    assert evaluate(classes, known, label="label").metrics["accuracy"].value == 1


def test_columns_of_texts_that_are_not_read_are_reported(reranker: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [row | {"comment": "this is what somebody thought of it"} for row in named("sentence1", "sentence2")]
    rows = [row | {"url": f"https://example.org/a/long/address/{place}"} for place, row in enumerate(rows)]
    with caplog.at_level(logging.WARNING, "clearhead"):
        predict(reranker, rows)
    assert [record.message for record in caplog.records] == [
        f"{reranker} reads sentence1 and sentence2 and ignores the texts of comment; "
        "choose columns with text and text_b."
    ]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "clearhead"):
        alone = predict(reranker, named("sentence1", "sentence2"), text="sentence1")
    assert "reads sentence1 and ignores the texts of sentence2" in caplog.text
    assert [one.value for one in alone] != [one.value for one in predict(reranker, named("sentence1", "sentence2"))]


def test_a_model_trained_here_says_nothing_of_other_columns(fitted: Run, caplog: pytest.LogCaptureFixture) -> None:
    rows = [row | {"comment": "this is what somebody thought of it"} for row in labelled(5)]
    with caplog.at_level(logging.WARNING, "clearhead"):
        predict(fitted.folder, rows)
    assert not caplog.records


def test_tuples_are_pairs(reranker: Path, pair: Run, fitted: Run) -> None:
    expected = cross_encoder(reranker).predict(PAIRS)
    for form in (PAIRS, [list(one) for one in PAIRS], iter(PAIRS), tuple(PAIRS)):
        np.testing.assert_allclose(numbers_of(reranker, form), expected, atol=1e-5)
    assert predict(pair.folder, PAIRS) == predict(pair.folder, named("sentence1", "sentence2"))
    assert predict(pair.folder, [("good", "bad")])[0].label is not None  # however short
    with pytest.raises(InputError, match="reads one text, and the list has two in each row"):
        predict(fitted.folder, PAIRS)
    with pytest.raises(InputError, match=r"a tuple, expected .* two texts of a pair as \(text, second text\)"):
        predict(reranker, [("one", "two", "three")])
    with pytest.raises(InputError, match="row 2: a text, and row 1 is a pair of texts; give rows of one kind"):
        predict(pair.folder, [("one", "two"), "three"])


def test_an_estimator_reads_both(reranker: Path) -> None:
    from clearhead.estimators import TextRegressor

    rows = paired(40, seed=1)
    pairs = [(row["sentence1"], row["sentence2"]) for row in rows]
    made = TextRegressor(model=str(reranker), epochs=1).fit(pairs, [float(place) for place in range(len(pairs))])
    swapped = [(a, pairs[(place + 1) % len(pairs)][1]) for place, (a, _) in enumerate(pairs)]
    assert not np.allclose(made.predict(pairs), made.predict(swapped))


@pytest.mark.parametrize("name", ["default", "Identity", "Sigmoid", "Tanh", "ReLU", "Softplus", "LogSigmoid"])
def test_folders_saved_there_score_the_same_here(name: str, reranker: Path, tmp_path: Path) -> None:
    choices = {} if name == "default" else {"activation_fn": getattr(torch.nn, name)()}
    theirs = cross_encoder(reranker, **choices)
    theirs.save_pretrained(str(tmp_path / "saved"))
    assert kind_of(tmp_path / "saved") == "reranker"
    expected = theirs.predict(PAIRS)
    np.testing.assert_allclose(numbers_of(tmp_path / "saved", PAIRS), expected, atol=1e-5)
    clearhead.load(tmp_path / "saved").save(tmp_path / "again")  # what is saved here is the same there, once more
    np.testing.assert_allclose(cross_encoder(tmp_path / "again").predict(PAIRS), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["linear.Identity", "activation.Sigmoid", "activation.Tanh"])
def test_older_folders_keep_it_in_their_config(name: str, foreign: Foreign) -> None:
    path = f"torch.nn.modules.{name}"
    for keys in ({"sentence_transformers": {"activation_fn": path}}, {"sbert_ce_default_activation_function": path}):
        folder = foreign(**keys)
        expected = cross_encoder(folder).predict(PAIRS)
        np.testing.assert_allclose(numbers_of(folder, PAIRS), expected, atol=1e-5)


def test_activations_that_are_not_known(foreign: Foreign, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is imported: sentence-transformers itself takes the usual one for what it does not trust."""
    folder = foreign(sentence_transformers={"activation_fn": "os.system"})
    with caplog.at_level(logging.WARNING, "clearhead"):
        found = numbers_of(folder, PAIRS)
    np.testing.assert_allclose(found, cross_encoder(folder).predict(PAIRS), atol=1e-5)
    assert "has the unknown activation os.system; sigmoid is used instead" in caplog.text
    for path in ("torch.nn.modules.activation.GELU", "torch.nn.Module", "torch.hub.load"):
        with pytest.raises(CheckpointError, match=f"the unsupported activation {path}. Supported: Identity, Sigmoid"):
            load_predictor(foreign(sentence_transformers={"activation_fn": path}))
    with pytest.raises(CheckpointError, match="expected a string"):
        load_predictor(foreign(sentence_transformers={"activation_fn": 3}))


def test_a_plain_regression_of_transformers_has_none(foreign: Foreign, reranker: Path) -> None:
    found = numbers_of(foreign(problem_type="regression"), PAIRS)
    raw = cross_encoder(reranker, activation_fn=torch.nn.Identity()).predict(PAIRS)
    np.testing.assert_allclose(found, raw, atol=1e-5)


def test_numbers_learned_here_are_the_same_there(reranker: Path, tmp_path: Path) -> None:
    saved = tmp_path / "sigmoid"  # what the base did with its output is no longer so
    cross_encoder(reranker, activation_fn=torch.nn.Sigmoid()).save_pretrained(str(saved))
    made = train(scored(60, two=True), output=tmp_path / "run", model=str(saved), epochs=1, report=False, **QUICK)
    expected = numbers_of(made.folder, PAIRS)
    assert min(expected) > 10
    np.testing.assert_allclose(cross_encoder(made.folder).predict(PAIRS), expected, rtol=1e-5)


def test_pairs_learned_here_are_the_same_there(pair: Run) -> None:
    logits = cross_encoder(pair.folder).predict(PAIRS)
    predictor = load_predictor(pair.folder)
    scaled = np.exp(logits / predictor.calibration.temperature)
    expected = scaled / scaled.sum(-1, keepdims=True)
    found = [list(one.probabilities.values()) for one in predict(predictor, PAIRS)]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_heads_on_the_mean_are_the_same_there(kind: str, tmp_path: Path) -> None:
    base = tiny_sentence_encoder(tmp_path / "base")
    rows = scored(60, two=True) if kind == "numbers" else paired(60)
    made = train(rows, output=tmp_path / "run", model=str(base), epochs=1, report=False, **QUICK)
    model = clearhead.load(made.folder)
    assert model.shape.head_pooling == "mean"
    theirs = cross_encoder(made.folder)
    theirs.save_pretrained(str(tmp_path / "theirs"))
    model.save(tmp_path / "ours")
    clearhead.convert(made.folder, tmp_path / "converted")
    assert "CrossEncoder" in (Path(made.folder) / "README.md").read_text()
    for folder in (made.folder, tmp_path / "theirs", tmp_path / "ours", tmp_path / "converted"):
        predictor = load_predictor(folder)
        answers = predict(predictor, PAIRS)
        logits = cross_encoder(folder).predict(PAIRS)
        if kind == "numbers":
            np.testing.assert_allclose(np.array([answer.value for answer in answers], float), logits, rtol=1e-5)
        else:
            scaled = np.exp(logits / predictor.calibration.temperature)
            found = [list(answer.probabilities.values()) for answer in answers]
            np.testing.assert_allclose(found, scaled / scaled.sum(-1, keepdims=True), atol=1e-5)
