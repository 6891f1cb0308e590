"""Linear models give the probabilities of the scikit-learn models that they are made from."""

from __future__ import annotations

import sys
import tracemalloc
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clearhead.classic import LinearModel, SparseRows, fit_linear, fit_tfidf, linear, solver
from clearhead.data import LabelSpace
from clearhead.errors import InputError, MissingExtraError
from clearhead.metrics.checks import Array
from tests.classic.texts import (
    FOUR,
    NUMBER,
    TAGS,
    TWO,
    made_features,
    made_targets,
    made_texts,
    sigmoid,
    single,
    softmax,
)

sparse: Any = import_module("scipy.sparse")  # brings no types

SPACES = [TWO, FOUR, TAGS, NUMBER]
NAMES = ["two", "four", "labels", "number"]


def reference(features: Any, targets: Array, space: LabelSpace, c: float, balance: str | None = None) -> Array:
    """What scikit-learn answers on the rows it was fitted on."""

    def fitted(model: Any, truth: Array) -> Any:
        return (model if hasattr(features, "tocsr") else make_pipeline(StandardScaler(), model)).fit(features, truth)

    if space.kind == "number":
        return np.asarray(fitted(Ridge(alpha=1 / c, tol=1e-6), targets).predict(features))[:, None]
    model = LogisticRegression(C=c, class_weight=balance, max_iter=2000)
    if space.kind == "classes":
        return np.asarray(fitted(model, targets).predict_proba(features))
    return np.stack([fitted(model, column).predict_proba(features)[:, 1] for column in targets.T], 1)


def answers(logits: Array, space: LabelSpace) -> Array:
    if space.kind == "number":
        return logits
    return softmax(logits) if space.kind == "classes" else sigmoid(logits)


@pytest.mark.parametrize(
    ("space", "class_weight"),
    [*((space, "none") for space in SPACES), *((space, "auto") for space in SPACES[:3])],
    ids=[*NAMES, *(f"{name}-auto" for name in NAMES[:3])],
)
@pytest.mark.parametrize("c", [0.01, 1.0, 30.0])
def test_dense_equals_scikit_learn(space: LabelSpace, class_weight: Any, c: float) -> None:
    features = made_features(300).astype(np.float64)
    targets = made_targets(features, space)
    made = fit_linear(features, targets, space, strength=c, class_weight=class_weight)
    assert (made.weight.dtype, made.bias.dtype, made.converged, made.strength) == (np.float32, np.float32, True, c)
    expected = reference(features, targets, space, c, "balanced" if class_weight == "auto" else None)
    np.testing.assert_allclose(answers(made.logits(features), space), expected, atol=1e-5, rtol=1e-5)
    wrong = LinearModel(made.weight, made.bias + np.arange(made.outputs, dtype=np.float32) / 1000 + np.float32(1e-3))
    assert np.abs(answers(wrong.logits(features), space) - expected).max() > 1e-5  # the comparison sees this much


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
def test_sparse_equals_scikit_learn(space: LabelSpace) -> None:
    texts = made_texts(300)
    tfidf, matrix = fit_tfidf(single(texts))
    targets = made_targets(matrix.toarray(), space)
    made = fit_linear(matrix, targets, space, strength=3.0)
    expected = reference(matrix.astype(np.float64), targets, space, 3.0)
    logits = made.sparse_logits(tfidf.transform(texts))
    assert logits.dtype == np.float32
    np.testing.assert_allclose(answers(logits, space), expected, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(logits, made.logits(matrix.toarray()), atol=1e-5)


@pytest.mark.parametrize("outputs", [1, 3, 5000])
def test_sparse_logits_are_the_same_in_blocks(outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = np.where(rng.random((40, 30)) < 0.1, rng.random((40, 30)), 0).astype(np.float32)
    table[[0, 7, 8, 39]] = 0  # empty rows at the ends and together
    table[5] = 1  # and a full one, larger than a block
    made = sparse.csr_matrix(table)
    given = SparseRows(made.indptr.astype(np.int64), made.indices, made.data, 30)
    model = LinearModel(rng.normal(size=(outputs, 30)).astype(np.float32), rng.normal(size=outputs).astype(np.float32))
    whole = model.sparse_logits(given)
    np.testing.assert_allclose(whole, table @ model.weight.T + model.bias, atol=1e-5)
    monkeypatch.setattr(linear, "BLOCK", 8)
    assert np.array_equal(model.sparse_logits(given), whole)


def test_a_chunk_of_a_thousand_texts_is_light() -> None:
    rng = np.random.default_rng(0)
    width, rows, each = 100_000, 1000, 200
    indices = np.sort(rng.integers(0, width, (rows, each)), 1).ravel().astype(np.int32)
    given = SparseRows(np.arange(rows + 1) * each, indices, np.ones(rows * each, np.float32), width)
    model = LinearModel(np.ones((50, width), np.float32), np.zeros(50, np.float32))
    tracemalloc.start()
    logits = model.sparse_logits(given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (logits == each).all()
    assert peak < 40 << 20  # the dense table alone would take 400 MB


def test_a_class_without_rows_is_never_the_answer() -> None:
    features = made_features(200)
    targets = made_targets(features, FOUR)
    kept = targets != 2
    made = fit_linear(features[kept], targets[kept], FOUR, strength=1.0)
    logits = made.logits(features)
    assert np.isfinite(logits).all()
    probs = softmax(logits)
    assert probs[:, 2].max() == 0
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0)).fit(features[kept].astype(float), targets[kept])
    np.testing.assert_allclose(probs[:, [0, 1, 3]], model.predict_proba(features), atol=1e-5)


def test_only_two_of_four_classes_have_rows() -> None:
    features = made_features(100)
    targets = np.where(made_targets(features, TWO) == 1, 3, 1)
    probs = softmax(fit_linear(features, targets, FOUR, strength=1.0).logits(features))
    assert probs[:, [0, 2]].max() == 0
    assert ((probs[:, 3] > 0.5) == (targets == 3)).mean() > 0.8


@pytest.mark.parametrize("c", [None, 1.0])
def test_a_single_class(c: float | None) -> None:
    made = fit_linear(made_features(20), np.full(20, 1), FOUR, strength=c)
    probs = softmax(made.logits(made_features(20)))
    assert np.array_equal(probs, np.tile([0, 1, 0, 0], (20, 1)))


def test_labels_that_all_rows_or_no_rows_have() -> None:
    features = made_features(98)
    targets = made_targets(features, TAGS)
    targets[:, 0], targets[:, 2] = True, False
    probs = sigmoid(fit_linear(features, targets, TAGS).logits(features))
    np.testing.assert_allclose(probs[:, 0], 0.99, atol=1e-6)
    np.testing.assert_allclose(probs[:, 2], 0.01, atol=1e-6)
    assert ((probs[:, 1] > 0.5) == targets[:, 1]).mean() > 0.7


def test_numbers_that_never_vary() -> None:
    made = fit_linear(made_features(20), np.full(20, 2.5), NUMBER)
    np.testing.assert_array_equal(made.logits(made_features(20, seed=1)), np.full((20, 1), 2.5, np.float32))


def test_constant_columns_get_no_weight() -> None:
    features = made_features(100)
    features[:, 1] = np.float32(1e6) + np.float32(0.06) * np.arange(100).astype(np.float32) % 2  # rounding noise
    made = fit_linear(features, made_targets(features, TWO), TWO)
    assert (made.weight[:, [1, 3]] == 0).all()
    assert (made.weight[:, [0, 2, 4, 5, 6]] != 0).all()


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
def test_the_same_seed_gives_the_same_bits(space: LabelSpace) -> None:
    features = made_features(120)
    targets = made_targets(features, space)
    one, two = (fit_linear(features, targets, space, seed=3) for _ in range(2))
    assert one.strength == two.strength
    assert np.array_equal(one.weight, two.weight)
    assert np.array_equal(one.bias, two.bias)


def test_a_fit_that_does_not_converge_says_so_and_warns_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "STEPS", 2)
    features = made_features(200)
    made = [fit_linear(features, made_targets(features, space), space, strength=10.0) for space in (FOUR, TAGS)]
    assert [model.converged for model in made] == [False, False]


def test_many_numbers_are_fitted_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    features = made_features(300, 5)
    tfidf, matrix = fit_tfidf(single(made_texts(300)))
    exact = fit_linear(features, made_targets(features, TWO), TWO, strength=1.0).logits(features)
    shares = fit_linear(matrix, made_targets(features, NUMBER), NUMBER, strength=1.0).sparse_logits(
        tfidf.transform(made_texts(300))
    )
    monkeypatch.setattr(linear, "MOST_EXACT", 0)
    near = fit_linear(features, made_targets(features, TWO), TWO, strength=1.0).logits(features)
    np.testing.assert_allclose(softmax(near), softmax(exact), atol=1e-2)
    close = fit_linear(matrix, made_targets(features, NUMBER), NUMBER, strength=1.0)
    np.testing.assert_allclose(close.sparse_logits(tfidf.transform(made_texts(300))), shares, rtol=1e-3)


def test_more_weights_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "MOST_WEIGHTS", 20)
    features = made_features(50)
    with pytest.raises(InputError, match="4 classes over 7 features"):
        fit_linear(features, made_targets(features, FOUR), FOUR, strength=1.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"features": np.zeros((5, 2))}, "5 rows and targets 4"),
        ({"features": np.zeros(4)}, "shape"),
        ({"features": np.zeros((4, 0))}, "shape"),
        ({"features": np.array([["a"], ["b"], ["c"], ["d"]])}, "expected numbers"),
        ({"features": np.array([[np.nan], [1], [2], [3]])}, "NaN"),
        ({"features": np.array([[np.inf], [1], [2], [3]])}, "NaN"),
        ({"features": np.array([[1e300], [1], [2], [3]])}, "NaN"),
        ({"targets": [0, 1, 0, 2]}, "there are 2 classes"),
        ({"targets": [0, 1, 0, -1]}, "start at 0"),
        ({"targets": []}, "empty"),
        ({"space": TAGS}, "rows, labels"),
        ({"space": TAGS, "targets": np.zeros((4, 2))}, "2 columns"),
        ({"space": NUMBER, "targets": [0, 1, 2, np.nan]}, "finite"),
        ({"space": NUMBER, "targets": [0, 1, 2, 1e15]}, "rescale"),
        ({"space": NUMBER, "class_weight": "auto"}, "numbers have none"),
        ({"space": LabelSpace()}, "no names"),
        ({"strength": 0.0}, "strength"),
        ({"strength": float("inf")}, "strength"),
        ({"strength": float("nan")}, "strength"),
        ({"class_weight": "balanced"}, "none or auto"),
        ({"seed": -1}, "seed"),
    ],
)
def test_inputs_that_cannot_be_fitted(change: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"features": np.arange(8.0).reshape(4, 2), "targets": [0, 1, 0, 1], "space": TWO, **change}
    with pytest.raises(InputError, match=said):
        fit_linear(given.pop("features"), given.pop("targets"), given.pop("space"), **given)


def test_features_that_do_not_fit_the_model() -> None:
    model = LinearModel(np.full((2, 3), 1e20, np.float32), np.zeros(2, np.float32))
    for wrong in (np.zeros((1, 4)), np.zeros(3), np.array([["a", "b", "c"]])):
        with pytest.raises(InputError, match="rows, 3"):
            model.logits(wrong)
    for value in (np.nan, np.inf, 1e30):
        with pytest.raises(InputError, match="too large"):
            model.logits(np.full((1, 3), value))
    with pytest.raises(InputError, match="expected 3"):
        model.sparse_logits(SparseRows(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), 4))


@pytest.mark.parametrize("space", [TWO, TAGS, NUMBER], ids=["two", "labels", "number"])
def test_without_scikit_learn_the_extra_is_named(space: LabelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    features = made_features(30)
    with pytest.raises(MissingExtraError, match=r"clearhead\[train\]"):
        fit_linear(features, made_targets(features, space), space)
