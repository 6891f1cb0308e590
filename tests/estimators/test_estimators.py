"""Estimators in scikit-learn's own company: pipelines, cross-validation, grid searches, clones and pickles."""

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


def words(**choices: Any) -> TextClassifier:
    return TextClassifier(method="tfidf", **choices)


def test_former_names_of_parameters_are_accepted() -> None:
    former: dict[str, Any] = {"strength": 3.0}
    with pytest.warns(DeprecationWarning, match="use C"):
        made = words(**former)
    assert made.C == made.get_params()["C"] == 3.0
    assert "strength" not in made.get_params()
    with pytest.warns(DeprecationWarning, match="use learning_rate"):
        made.set_params(rate=1e-3)
    assert clone(made).learning_rate == 1e-3


@pytest.mark.learns
def test_a_classifier_learns_and_answers() -> None:
    made = words().fit(TEXTS, LABELS)
    assert made.score(TEXTS, LABELS) > 0.95
    probs, scores = made.predict_proba(TEXTS), made.decision_function(TEXTS)
    assert probs.sum(1) == pytest.approx(np.ones(80))
    assert (made.classes_[probs.argmax(1)] == made.predict(TEXTS)).all()
    assert probs[:, 1] == pytest.approx(1 / (1 + np.exp(-scores)), abs=1e-5)
    assert made.run_.rows == {"train": 80}
    assert made.run_.report is None
    assert is_classifier(made)
    assert not is_regressor(made)


@pytest.mark.learns
@pytest.mark.parametrize(
    "values",
    [["yes", "no"], [3, -1], [10, 9], [True, False], [2.0, 1.0], np.array([7, 300], np.int16), ["", "x"], ["1", "01"]],
    ids=str,
)
def test_labels_come_back_as_they_were(values: Any) -> None:
    y = np.array([values[int(label == "good")] for label in LABELS])
    made = words().fit(TEXTS, y)
    said = made.predict(TEXTS)
    assert made.classes_.tolist() == sorted(np.unique(y).tolist())
    assert said.dtype == y.dtype == made.classes_.dtype
    assert (said == y).mean() > 0.95
    assert (made.classes_[made.predict_proba(TEXTS).argmax(1)] == said).all()


def test_ten_classes_keep_their_columns() -> None:
    y = np.arange(80) % 11
    texts = [f"word{one} and some more" for one in y]
    made = words().fit(texts, y)
    assert (made.predict(texts) == y).all()
    assert made.predict_proba(texts).shape == made.decision_function(texts).shape == (80, 11)
    assert (made.decision_function(texts).argmax(1) == y).all()


def test_every_form_of_texts_is_read() -> None:
    said = words().fit(TEXTS, LABELS).predict(TEXTS)
    for form in (
        np.array(TEXTS),
        np.array(TEXTS, object),
        pd.Series(TEXTS, index=range(5, 85)),
        tuple(TEXTS),
        np.array(TEXTS)[:, None],
        pd.DataFrame({"a": TEXTS}),
    ):
        assert (words().fit(form, pd.Series(LABELS)).predict(form) == said).all()


@pytest.mark.learns
def test_pairs_are_read_in_two_columns() -> None:
    first = [row["text"] for row in ROWS]
    second = [make_sentence(random.Random(place), []) for place in range(80)]
    pairs = list(zip(second, first, strict=True))
    frame = pd.DataFrame(pairs, columns=["one", "two"])
    made = words().fit(pairs, LABELS)
    assert made.run_.task == "pair"
    assert made.score(pairs, LABELS) > 0.95
    assert (made.predict(frame) == made.predict(pairs)).all()
    assert (words().fit(frame, LABELS).predict(frame.to_numpy()) == made.predict(pairs)).all()
    with pytest.raises(EstimatorError, match="X has 1 features, but TextClassifier is expecting 2"):
        made.predict(first)
    numbers = TextRegressor(method="tfidf").fit(pairs, NUMBERS)
    assert numbers.score(pairs, NUMBERS) > 0.5


@pytest.mark.learns
def test_several_labels_as_a_table() -> None:
    y = np.array(
        [[label == "good", label == "bad", "film" in text, False] for label, text in zip(LABELS, TEXTS, strict=True)]
    )
    made = words().fit(TEXTS, y.astype(int))
    assert (
        made.predict(TEXTS).shape == made.predict_proba(TEXTS).shape == made.decision_function(TEXTS).shape == (80, 4)
    )
    assert (made.predict(TEXTS)[:, :3] == y[:, :3]).mean() > 0.9
    assert not made.predict(TEXTS)[:, 3].any()  # no row had it
    assert made.predict_proba(TEXTS)[:, 3].max() < 0.05
    assert made.classes_.tolist() == [0, 1, 2, 3]
    assert cross_val_score(words(C=100.0), TEXTS, y.astype(int), cv=3).mean() > 0.4


@pytest.mark.learns
def test_several_labels_as_lists() -> None:
    y = [[label, "film"] if "film" in text else [label] for label, text in zip(LABELS, TEXTS, strict=True)]
    y[0] = []
    made = words(C=100.0).fit(TEXTS, y)
    assert made.classes_.tolist() == ["bad", "film", "good"]
    assert set(made.predict(TEXTS)[5]) <= {"bad", "film", "good"}
    assert made.score(TEXTS, y) > 0.7


@pytest.mark.learns
def test_a_regressor_learns() -> None:
    made = TextRegressor(method="tfidf").fit(TEXTS, NUMBERS)
    assert made.score(TEXTS, NUMBERS) > 0.8
    assert made.predict(TEXTS[:3]).dtype == np.float64
    assert is_regressor(made)
    assert cross_val_score(TextRegressor(method="tfidf"), TEXTS, NUMBERS, cv=3).mean() > 0.5


@pytest.mark.thin(3)
@pytest.mark.learns
@pytest.mark.parametrize("method", ["finetune", "head", "features"])
def test_networks_learn_the_same_twice(method: str, model: str) -> None:
    texts, labels = ([row[part] for row in make_sentiment_rows(200, seed=3)] for part in ("text", "label"))
    choices: dict[str, Any] = {"model": model, "method": method}
    if method != "features":
        choices |= {"epochs": 6, "learning_rate": 3e-3, "batch_size": 16, "validation_fraction": 0.2}
    one, two = (TextClassifier(**choices, random_state=5).fit(texts, labels) for _ in range(2))
    assert (one.predict_proba(texts) == two.predict_proba(texts)).all()
    if method == "finetune":
        assert one.score(texts, labels) > 0.9
        assert one.run_.rows["dev"] == 40
        assert one.run_.baselines == ()
        other = TextClassifier(**choices, random_state=6).fit(texts, labels)
        assert (other.predict_proba(texts) != one.predict_proba(texts)).any()


@pytest.mark.learns
def test_in_a_grid_search_and_a_pipeline(model: str) -> None:
    both = FeatureUnion([("vectors", TextEncoder(model=model)), ("words", TfidfVectorizer())])
    chain = Pipeline([("features", both), ("answer", LogisticRegression(max_iter=1000))])
    grid = {"features__vectors__layer": ["first", "last"], "features__vectors__pooling": ["mean", "max"]}
    found = GridSearchCV(chain, grid, cv=3, error_score="raise").fit(TEXTS, LABELS)
    assert found.best_score_ > 0.8
    search = GridSearchCV(words(), {"C": [1e-3, 10.0]}, cv=3, error_score="raise", scoring="neg_log_loss")
    search.fit(TEXTS, LABELS)
    assert search.best_params_ == {"C": 10.0}
    assert search.best_estimator_.score(TEXTS, LABELS) > 0.9
    assert (cross_val_predict(words(), TEXTS, LABELS, cv=4) == LABELS).mean() > 0.8
    assert cross_val_predict(words(), TEXTS, LABELS, cv=4, method="predict_proba").shape == (80, 2)


@pytest.mark.learns
def test_a_column_of_a_table(model: str) -> None:
    frame = pd.DataFrame({"text": TEXTS, "stars": np.arange(80)})
    columns = ColumnTransformer([("text", TextEncoder(model=model), "text"), ("stars", "passthrough", ["stars"])])
    assert columns.fit_transform(frame).shape == (80, 33)
    assert make_pipeline(columns, LogisticRegression(max_iter=5000)).fit(frame, LABELS).score(frame, LABELS) > 0.5


def test_an_encoder_gives_what_embed_gives(model: str) -> None:
    made = TextEncoder(model=model, layer="concat_last_four", pooling="mean")
    with pytest.raises(NotFittedError):
        made.transform(TEXTS)
    vectors = TextEncoder(model=model, layer=1, pooling=["mean", "max"], normalize=True).fit_transform(TEXTS)
    assert (vectors == clearhead.load(model).embed(TEXTS, layer=1, pooling=["mean", "max"], normalize=True)).all()
    plain = TextEncoder(model=model).set_output(transform="pandas").fit(TEXTS)
    assert list(plain.transform(TEXTS[:2]).columns)[:2] == ["textencoder0", "textencoder1"]
    again = pickle.loads(pickle.dumps(plain))
    assert (again.transform(TEXTS) == plain.transform(TEXTS)).all(axis=None)
    assert len(pickle.dumps(plain)) < 2000


def test_clones_are_unfitted_and_equal() -> None:
    made = words(C=3.0, settings={"label_smoothing": 0.1}, class_weight="balanced").fit(TEXTS, LABELS)
    copy = clone(made)
    assert copy.get_params() == made.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(TEXTS)
    assert "method='tfidf'" in repr(made)


@pytest.mark.parametrize("method", ["tfidf", "finetune"])
def test_pickles_answer_elsewhere(method: str, model: str, tmp_path: Path) -> None:
    made = TextClassifier(method=method, model=model, epochs=1).fit(TEXTS, np.array(LABELS))
    joblib.dump({"made": made, "texts": TEXTS}, tmp_path / "made.joblib")
    folder = made.trained_folder_.folder
    before = made.predict_proba(TEXTS)
    again = joblib.load(tmp_path / "made.joblib")["made"]
    assert again.trained_folder_.folder != folder
    code = (
        "import joblib, sys, numpy\n"
        f"held = joblib.load({str(tmp_path / 'made.joblib')!r})\n"
        f"numpy.save({str(tmp_path / 'probs.npy')!r}, held['made'].predict_proba(held['texts']))\n"
    )
    del made
    assert not folder.exists()  # a temporary folder goes with its estimator
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (np.load(tmp_path / "probs.npy") == before).all()
    assert (again.predict_proba(TEXTS) == before).all()
    pickled = (tmp_path / "made.joblib").read_bytes().split(b"clearhead.json")[0]
    assert not re.search(rb"torch[._](?:_|nn|storage|Tensor|serialization)", pickled)  # its name is among the facts


def test_pickles_of_version_0_1_are_read(model: str) -> None:
    classifier, encoder = words(C=3.0).fit(TEXTS, LABELS), TextEncoder(model=model).fit(TEXTS)
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
    made = words(folder=tmp_path / "run", validation_fraction=0.2).fit(TEXTS, LABELS)
    assert (tmp_path / "run" / "report.html").exists()
    assert made.run_.rows == {"train": 64, "dev": 16}
    made.save(tmp_path / "copy")
    said = [one.label for one in clearhead.predict(tmp_path / "copy", TEXTS)]
    assert said == made.predict(TEXTS).tolist()
    assert "report.html" not in {file.name for file in (tmp_path / "copy").iterdir()}
    with pytest.raises(ClearheadError, match="already exists and is not empty"):
        words(folder=tmp_path / "run").fit(TEXTS, LABELS)
    with pytest.raises(ClearheadError, match="cannot be written"):
        made.save(tmp_path / "copy")


def test_few_rows_and_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    made = words(verbose=1).fit(["good film", "bad film"], [1, 0])
    assert made.predict(["good film"]).tolist() in ([0], [1])
    assert "2 train" in capsys.readouterr().err
    words().fit(["good film", "bad film"], [1, 0])
    assert capsys.readouterr() == ("", "")


def test_seeds_of_every_kind() -> None:
    for seed in (np.int64(3), np.random.RandomState(1), None):
        words(random_state=seed).fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    ("X", "y", "said"),
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
def test_mistakes_are_value_errors(X: Any, y: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        words().fit(X, y)


@pytest.mark.parametrize("y", [["a", None], pd.Series(["a", None]), pd.Series([1, None], dtype="Int64"), [1.0, np.nan]])
def test_missing_labels_are_value_errors(y: Any) -> None:
    with pytest.raises(ValueError, match=r"y\[1\] is missing|y contains NaN"):
        words().fit(["one", "two"], y)


def test_nullable_numbers_stay_whole() -> None:
    made = words().fit(TEXTS, pd.Series([3 if label == "good" else 5 for label in LABELS], dtype="Int64"))
    assert made.classes_.tolist() == [3, 5]
    assert made.predict(TEXTS).dtype.kind == "i"


def test_more_mistakes() -> None:
    with pytest.raises(EstimatorError, match="sample_weight is not supported"):
        words().fit(TEXTS, LABELS, sample_weight=np.ones(80))
    with pytest.raises(EstimatorError, match="class_weight is"):
        words(class_weight={"good": 2}).fit(TEXTS, LABELS)
    with pytest.raises(ClearheadError, match="layer and pooling are for method features"):
        words(layer="last").fit(TEXTS, LABELS)
    with pytest.raises(ClearheadError, match="Unknown setting 'epoch'"):
        words(settings={"epoch": 3}).fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="contains NaN"):
        TextRegressor(method="tfidf").fit(["a", "b"], [1.0, np.nan])
    with pytest.raises(EstimatorError, match="texts are embedded one column at a time"):
        TextEncoder().fit([("a", "b")])
    with pytest.raises(NotFittedError):
        words().predict(TEXTS)
    with pytest.raises(EstimatorError, match=r"X\[0\]: text is empty"):
        words().fit(TEXTS, LABELS).predict([" "])


def test_estimators_are_loaded_only_when_used() -> None:
    code = "import sys, clearhead\nassert 'sklearn' not in sys.modules\nclearhead.TextClassifier\n"
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    blocked = "import sys\nsys.modules['sklearn'] = None\nimport clearhead\nclearhead.TextClassifier\n"
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, check=False)
    assert "pip install 'clearhead[train]'" in done.stderr
