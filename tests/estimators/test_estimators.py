"""Estimators with scikit-learn: pipelines, cross-validation, grid searches, clones and pickles."""

from __future__ import annotations

import pickle
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

import clearhead
from clearhead import ClearheadError, TextClassifier, TextEncoder, TextRegressor
from clearhead.estimators import EstimatorError, kept
from tests.tiny_models import make_sentence, make_sentiment_rows, tiny_model

ROWS = make_sentiment_rows(80, seed=3)
TEXTS = [row["text"] for row in ROWS]
LABELS = [row["label"] for row in ROWS]
NUMBERS = [1.5 if label == "good" else -2.0 for label in LABELS]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny"), max_position_embeddings=64))


def tfidf_classifier(**choices: Any) -> TextClassifier:
    return TextClassifier(method="tfidf", **choices)


def test_former_names_of_parameters_are_accepted() -> None:
    former: dict[str, Any] = {"strength": 3.0}
    with pytest.warns(DeprecationWarning, match="use C"):
        fitted = tfidf_classifier(**former)
    assert fitted.C == fitted.get_params()["C"] == 3.0
    assert "strength" not in fitted.get_params()
    with pytest.warns(DeprecationWarning, match="use learning_rate"):
        fitted.set_params(rate=1e-3)
    assert clone(fitted).learning_rate == 1e-3


@pytest.mark.learns
def test_a_classifier_learns_and_answers() -> None:
    fitted = tfidf_classifier().fit(TEXTS, LABELS)
    assert fitted.score(TEXTS, LABELS) > 0.95
    probs, scores = fitted.predict_proba(TEXTS), fitted.decision_function(TEXTS)
    assert probs.sum(1) == pytest.approx(np.ones(80))
    assert (fitted.classes_[probs.argmax(1)] == fitted.predict(TEXTS)).all()
    assert probs[:, 1] == pytest.approx(1 / (1 + np.exp(-scores)), abs=1e-5)
    assert fitted.run_.rows == {"train": 80}
    assert fitted.run_.report is None
    assert is_classifier(fitted)
    assert not is_regressor(fitted)


@pytest.mark.learns
@pytest.mark.parametrize(
    "values",
    [["yes", "no"], [3, -1], [10, 9], [True, False], [2.0, 1.0], np.array([7, 300], np.int16), ["", "x"], ["1", "01"]],
    ids=str,
)
def test_labels_come_back_as_they_were(values: Any) -> None:
    y = np.array([values[int(label == "good")] for label in LABELS])
    fitted = tfidf_classifier().fit(TEXTS, y)
    predicted = fitted.predict(TEXTS)
    assert fitted.classes_.tolist() == sorted(np.unique(y).tolist())
    assert predicted.dtype == y.dtype == fitted.classes_.dtype
    assert (predicted == y).mean() > 0.95
    assert (fitted.classes_[fitted.predict_proba(TEXTS).argmax(1)] == predicted).all()


def test_ten_classes_keep_their_columns() -> None:
    y = np.arange(80) % 11
    texts = [f"word{index} and some more" for index in y]
    fitted = tfidf_classifier().fit(texts, y)
    assert (fitted.predict(texts) == y).all()
    assert fitted.predict_proba(texts).shape == fitted.decision_function(texts).shape == (80, 11)
    assert (fitted.decision_function(texts).argmax(1) == y).all()


def test_every_form_of_texts_is_read() -> None:
    predicted = tfidf_classifier().fit(TEXTS, LABELS).predict(TEXTS)
    for text_input in (
        np.array(TEXTS),
        np.array(TEXTS, object),
        pd.Series(TEXTS, index=range(5, 85)),
        tuple(TEXTS),
        np.array(TEXTS)[:, None],
        pd.DataFrame({"a": TEXTS}),
    ):
        assert (tfidf_classifier().fit(text_input, pd.Series(LABELS)).predict(text_input) == predicted).all()


@pytest.mark.learns
def test_pairs_are_read_in_two_columns() -> None:
    first = [row["text"] for row in ROWS]
    second = [make_sentence(random.Random(index), []) for index in range(80)]
    pairs = list(zip(second, first, strict=True))
    frame = pd.DataFrame(pairs, columns=["one", "two"])
    fitted = tfidf_classifier().fit(pairs, LABELS)
    assert fitted.run_.task == "pair"
    assert fitted.score(pairs, LABELS) > 0.95
    assert (fitted.predict(frame) == fitted.predict(pairs)).all()
    assert (tfidf_classifier().fit(frame, LABELS).predict(frame.to_numpy()) == fitted.predict(pairs)).all()
    with pytest.raises(EstimatorError, match="X has 1 features, but TextClassifier is expecting 2"):
        fitted.predict(first)
    numbers = TextRegressor(method="tfidf").fit(pairs, NUMBERS)
    assert numbers.score(pairs, NUMBERS) > 0.5


@pytest.mark.learns
def test_several_labels_as_a_table() -> None:
    y = np.array(
        [[label == "good", label == "bad", "film" in text, False] for label, text in zip(LABELS, TEXTS, strict=True)]
    )
    fitted = tfidf_classifier().fit(TEXTS, y.astype(int))
    assert (
        fitted.predict(TEXTS).shape
        == fitted.predict_proba(TEXTS).shape
        == fitted.decision_function(TEXTS).shape
        == (80, 4)
    )
    assert (fitted.predict(TEXTS)[:, :3] == y[:, :3]).mean() > 0.9
    assert not fitted.predict(TEXTS)[:, 3].any()  # no row had it
    assert fitted.predict_proba(TEXTS)[:, 3].max() < 0.05
    assert fitted.classes_.tolist() == [0, 1, 2, 3]
    assert cross_val_score(tfidf_classifier(C=100.0), TEXTS, y.astype(int), cv=3).mean() > 0.4


@pytest.mark.learns
def test_several_labels_as_lists() -> None:
    y = [[label, "film"] if "film" in text else [label] for label, text in zip(LABELS, TEXTS, strict=True)]
    y[0] = []
    fitted = tfidf_classifier(C=100.0).fit(TEXTS, y)
    assert fitted.classes_.tolist() == ["bad", "film", "good"]
    assert set(fitted.predict(TEXTS)[5]) <= {"bad", "film", "good"}
    assert fitted.score(TEXTS, y) > 0.7


@pytest.mark.learns
def test_a_regressor_learns() -> None:
    fitted = TextRegressor(method="tfidf").fit(TEXTS, NUMBERS)
    assert fitted.score(TEXTS, NUMBERS) > 0.8
    assert fitted.predict(TEXTS[:3]).dtype == np.float64
    assert is_regressor(fitted)
    assert cross_val_score(TextRegressor(method="tfidf"), TEXTS, NUMBERS, cv=3).mean() > 0.5


@pytest.mark.thin(3)
@pytest.mark.learns
@pytest.mark.parametrize("method", ["finetune", "head", "features"])
def test_networks_learn_the_same_twice(method: str, model: str) -> None:
    texts, labels = ([row[part] for row in make_sentiment_rows(200, seed=3)] for part in ("text", "label"))
    choices: dict[str, Any] = {"model": model, "method": method}
    if method != "features":
        choices |= {"epochs": 6, "learning_rate": 3e-3, "batch_size": 16, "validation_fraction": 0.2}
    first_fit, second_fit = (TextClassifier(**choices, random_state=5).fit(texts, labels) for _ in range(2))
    assert (first_fit.predict_proba(texts) == second_fit.predict_proba(texts)).all()
    if method == "finetune":
        assert first_fit.score(texts, labels) > 0.9
        assert first_fit.run_.rows["dev"] == 40
        assert first_fit.run_.baselines == ()
        other_seed = TextClassifier(**choices, random_state=6).fit(texts, labels)
        assert (other_seed.predict_proba(texts) != first_fit.predict_proba(texts)).any()


@pytest.mark.learns
def test_in_a_grid_search_and_a_pipeline(model: str) -> None:
    union = FeatureUnion([("vectors", TextEncoder(model=model)), ("words", TfidfVectorizer())])
    chain = Pipeline([("features", union), ("answer", LogisticRegression(max_iter=1000))])
    grid = {"features__vectors__layer": ["first", "last"], "features__vectors__pooling": ["mean", "max"]}
    grid_search = GridSearchCV(chain, grid, cv=3, error_score="raise").fit(TEXTS, LABELS)
    assert grid_search.best_score_ > 0.8
    search = GridSearchCV(tfidf_classifier(), {"C": [1e-3, 10.0]}, cv=3, error_score="raise", scoring="neg_log_loss")
    search.fit(TEXTS, LABELS)
    assert search.best_params_ == {"C": 10.0}
    assert search.best_estimator_.score(TEXTS, LABELS) > 0.9
    assert (cross_val_predict(tfidf_classifier(), TEXTS, LABELS, cv=4) == LABELS).mean() > 0.8
    assert cross_val_predict(tfidf_classifier(), TEXTS, LABELS, cv=4, method="predict_proba").shape == (80, 2)


@pytest.mark.learns
def test_a_column_of_a_table(model: str) -> None:
    frame = pd.DataFrame({"text": TEXTS, "stars": np.arange(80)})
    columns = ColumnTransformer([("text", TextEncoder(model=model), "text"), ("stars", "passthrough", ["stars"])])
    assert columns.fit_transform(frame).shape == (80, 33)
    assert make_pipeline(columns, LogisticRegression(max_iter=5000)).fit(frame, LABELS).score(frame, LABELS) > 0.5


def test_an_encoder_gives_what_embed_gives(model: str) -> None:
    fitted = TextEncoder(model=model, layer="concat_last_four", pooling="mean")
    with pytest.raises(NotFittedError):
        fitted.transform(TEXTS)
    vectors = TextEncoder(model=model, layer=1, pooling=["mean", "max"], normalize=True).fit_transform(TEXTS)
    assert (vectors == clearhead.load(model).embed(TEXTS, layer=1, pooling=["mean", "max"], normalize=True)).all()
    pandas_encoder = TextEncoder(model=model).set_output(transform="pandas").fit(TEXTS)
    assert list(pandas_encoder.transform(TEXTS[:2]).columns)[:2] == ["textencoder0", "textencoder1"]
    restored = pickle.loads(pickle.dumps(pandas_encoder))
    assert (restored.transform(TEXTS) == pandas_encoder.transform(TEXTS)).all(axis=None)
    assert len(pickle.dumps(pandas_encoder)) < 2000


def test_clones_are_unfitted_and_equal() -> None:
    fitted = tfidf_classifier(C=3.0, settings={"label_smoothing": 0.1}, class_weight="balanced").fit(TEXTS, LABELS)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(TEXTS)
    assert "method='tfidf'" in repr(fitted)


@pytest.mark.parametrize("method", ["tfidf", "finetune"])
def test_pickles_answer_elsewhere(method: str, model: str, tmp_path: Path) -> None:
    fitted = TextClassifier(method=method, model=model, epochs=1).fit(TEXTS, np.array(LABELS))
    joblib.dump({"made": fitted, "texts": TEXTS}, tmp_path / "made.joblib")
    folder = fitted.trained_folder_.folder
    before = fitted.predict_proba(TEXTS)
    restored = joblib.load(tmp_path / "made.joblib")["made"]
    assert restored.trained_folder_.folder != folder
    code = (
        "import joblib, sys, numpy\n"
        f"held = joblib.load({str(tmp_path / 'made.joblib')!r})\n"
        f"numpy.save({str(tmp_path / 'probs.npy')!r}, held['made'].predict_proba(held['texts']))\n"
    )
    del fitted
    assert not folder.exists()  # a temporary folder goes with its estimator
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (np.load(tmp_path / "probs.npy") == before).all()
    assert (restored.predict_proba(TEXTS) == before).all()
    pickled = (tmp_path / "made.joblib").read_bytes().split(b"clearhead.json")[0]
    assert not re.search(rb"torch[._](?:_|nn|storage|Tensor|serialization)", pickled)  # its name is among the facts


def test_pickles_of_version_0_1_are_read(model: str) -> None:
    classifier, encoder = tfidf_classifier(C=3.0).fit(TEXTS, LABELS), TextEncoder(model=model).fit(TEXTS)
    former = {
        "trained_folder_": "kept_",
        "_label_format": "_form",
        "_class_order": "_order",
        "_absent_logit": "_absent",
        "model_handle_": "loaded_",
        "C": "strength",
    }
    cases: list[tuple[Any, str]] = [(classifier, "predict_proba"), (encoder, "transform")]
    for estimator, method in cases:
        expected = getattr(estimator, method)(TEXTS)
        restored = object.__new__(type(estimator))
        restored.__setstate__({former.get(name, name): state for name, state in estimator.__getstate__().items()})
        assert not former.values() & vars(restored).keys()
        assert (getattr(restored, method)(TEXTS) == expected).all()
    assert kept.Kept is type(classifier.trained_folder_)
    assert kept.Loaded is type(encoder.model_handle_)


def test_a_folder_can_be_kept_and_saved(tmp_path: Path) -> None:
    fitted = tfidf_classifier(folder=tmp_path / "run", validation_fraction=0.2).fit(TEXTS, LABELS)
    assert (tmp_path / "run" / "report.html").exists()
    assert fitted.run_.rows == {"train": 64, "dev": 16}
    fitted.save(tmp_path / "copy")
    predicted = [prediction.label for prediction in clearhead.predict(tmp_path / "copy", TEXTS)]
    assert predicted == fitted.predict(TEXTS).tolist()
    assert "report.html" not in {file.name for file in (tmp_path / "copy").iterdir()}
    with pytest.raises(ClearheadError, match="already exists and is not empty"):
        tfidf_classifier(folder=tmp_path / "run").fit(TEXTS, LABELS)
    with pytest.raises(ClearheadError, match="cannot be written"):
        fitted.save(tmp_path / "copy")


def test_few_rows_and_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    fitted = tfidf_classifier(verbose=1).fit(["good film", "bad film"], [1, 0])
    assert fitted.predict(["good film"]).tolist() in ([0], [1])
    assert "2 train" in capsys.readouterr().err
    tfidf_classifier().fit(["good film", "bad film"], [1, 0])
    assert capsys.readouterr() == ("", "")


def test_seeds_of_every_kind() -> None:
    for seed in (np.int64(3), np.random.RandomState(1), None):
        tfidf_classifier(random_state=seed).fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ("one text", ["a"], "X is a str"),
        (5, [1], "X is a int"),
        ([], [], "0 sample"),
        ([["a", "b", "c"]] * 2, [0, 1], "one text per row, or two"),
        (["a", ("b", "c")], [0, 1], "one text per row, or two"),
        (np.ones((2, 2)), [0, 1], "dtype float64; expected texts"),
        (np.array([[["a"]]]), [0], "has shape"),
        (["fine", "", None, "x\0y"], [0, 1, 0, 1], r"3 of 4 rows of X cannot be read: X\[1\]: text is empty; X"),
        (["a", "b"], [0, 1, 1], "inconsistent numbers of samples"),
        (["a", "b"], [0.5, 1.2], "Unknown label type: continuous"),
        (["a", "b"], ["same", "same"], "one class"),
        (["a", "b"], [[0, 0], [0, 0]], "no labels in any row"),
        (["a", "b"], [[], []], "no labels in any row"),
        (["a", "b"], np.array([[1, 2], [3, 4]]), "several columns with values other than 0 and 1"),
        (["a", "b"], None, "requires y"),
    ],
)
def test_mistakes_are_value_errors(X: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tfidf_classifier().fit(X, y)


@pytest.mark.parametrize("y", [["a", None], pd.Series(["a", None]), pd.Series([1, None], dtype="Int64"), [1.0, np.nan]])
def test_missing_labels_are_value_errors(y: Any) -> None:
    with pytest.raises(ValueError, match=r"y\[1\] is missing|y contains NaN"):
        tfidf_classifier().fit(["one", "two"], y)


def test_nullable_numbers_stay_whole() -> None:
    fitted = tfidf_classifier().fit(TEXTS, pd.Series([3 if label == "good" else 5 for label in LABELS], dtype="Int64"))
    assert fitted.classes_.tolist() == [3, 5]
    assert fitted.predict(TEXTS).dtype.kind == "i"


def test_more_mistakes() -> None:
    with pytest.raises(EstimatorError, match="sample_weight is not supported"):
        tfidf_classifier().fit(TEXTS, LABELS, sample_weight=np.ones(80))
    with pytest.raises(EstimatorError, match="class_weight is"):
        tfidf_classifier(class_weight={"good": 2}).fit(TEXTS, LABELS)
    with pytest.raises(ClearheadError, match="layer and pooling apply only to method features"):
        tfidf_classifier(layer="last").fit(TEXTS, LABELS)
    with pytest.raises(ClearheadError, match="Unknown setting 'epoch'"):
        tfidf_classifier(settings={"epoch": 3}).fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="contains NaN"):
        TextRegressor(method="tfidf").fit(["a", "b"], [1.0, np.nan])
    with pytest.raises(EstimatorError, match="texts are embedded one column at a time"):
        TextEncoder().fit([("a", "b")])
    with pytest.raises(NotFittedError):
        tfidf_classifier().predict(TEXTS)
    with pytest.raises(EstimatorError, match=r"X\[0\]: text is empty"):
        tfidf_classifier().fit(TEXTS, LABELS).predict([" "])


def test_estimators_are_loaded_only_when_used() -> None:
    code = "import sys, clearhead\nassert 'sklearn' not in sys.modules\nclearhead.TextClassifier\n"
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    blocked = "import sys\nsys.modules['sklearn'] = None\nimport clearhead\nclearhead.TextClassifier\n"
    process = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, check=False)
    assert "pip install 'clearhead[train]'" in process.stderr
