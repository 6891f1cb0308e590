"""Linear models give the probabilities of the scikit-learn models that they are fitted by."""

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
    FOUR_CLASSES,
    LABELS,
    NUMBER,
    TWO_CLASSES,
    iter_texts,
    make_features,
    make_targets,
    make_texts,
    sigmoid,
    softmax,
)

sparse: Any = import_module("scipy.sparse")  # has no type stubs

SPACES = [TWO_CLASSES, FOUR_CLASSES, LABELS, NUMBER]
NAMES = ["two", "four", "labels", "number"]


def predict_by_sklearn(
    features: Any, targets: Array, space: LabelSpace, strength: float, sklearn_class_weight: str | None = None
) -> Array:
    """Predictions of scikit-learn on its training rows."""

    def fit_model(model: Any, truth: Array) -> Any:
        return (model if hasattr(features, "tocsr") else make_pipeline(StandardScaler(), model)).fit(features, truth)

    if space.kind == "number":
        return np.asarray(fit_model(Ridge(alpha=1 / strength, tol=1e-6), targets).predict(features))[:, None]
    model = LogisticRegression(C=strength, class_weight=sklearn_class_weight, max_iter=2000)
    if space.kind == "classes":
        return np.asarray(fit_model(model, targets).predict_proba(features))
    return np.stack([fit_model(model, column).predict_proba(features)[:, 1] for column in targets.T], 1)


def to_predictions(logits: Array, space: LabelSpace) -> Array:
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
    features = make_features(300).astype(np.float64)
    targets = make_targets(features, space)
    model = fit_linear(features, targets, space, strength=c, class_weight=class_weight)
    assert (model.weight.dtype, model.bias.dtype, model.converged, model.strength) == (np.float32, np.float32, True, c)
    expected = predict_by_sklearn(features, targets, space, c, "balanced" if class_weight == "auto" else None)
    np.testing.assert_allclose(to_predictions(model.logits(features), space), expected, atol=1e-5, rtol=1e-5)
    changed = LinearModel(
        model.weight, model.bias + np.arange(model.outputs, dtype=np.float32) / 1000 + np.float32(1e-3)
    )
    assert (
        np.abs(to_predictions(changed.logits(features), space) - expected).max() > 1e-5
    )  # the comparison detects this much


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
def test_sparse_equals_scikit_learn(space: LabelSpace) -> None:
    texts = make_texts(300)
    tfidf, matrix = fit_tfidf(iter_texts(texts))
    targets = make_targets(matrix.toarray(), space)
    model = fit_linear(matrix, targets, space, strength=3.0)
    expected = predict_by_sklearn(matrix.astype(np.float64), targets, space, 3.0)
    logits = model.sparse_logits(tfidf.transform(texts))
    assert logits.dtype == np.float32
    np.testing.assert_allclose(to_predictions(logits, space), expected, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(logits, model.logits(matrix.toarray()), atol=1e-5)


@pytest.mark.parametrize("outputs", [1, 3, 5000])
def test_sparse_logits_are_the_same_in_blocks(outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = np.where(rng.random((40, 30)) < 0.1, rng.random((40, 30)), 0).astype(np.float32)
    table[[0, 7, 8, 39]] = 0  # empty rows at the ends and together
    table[5] = 1  # and a full one, larger than a block
    matrix = sparse.csr_matrix(table)
    rows = SparseRows(matrix.indptr.astype(np.int64), matrix.indices, matrix.data, 30)
    model = LinearModel(rng.normal(size=(outputs, 30)).astype(np.float32), rng.normal(size=outputs).astype(np.float32))
    unblocked = model.sparse_logits(rows)
    np.testing.assert_allclose(unblocked, table @ model.weight.T + model.bias, atol=1e-5)
    monkeypatch.setattr(linear, "MAX_BLOCK_PRODUCTS", 8)
    assert np.array_equal(model.sparse_logits(rows), unblocked)


def test_a_chunk_of_a_thousand_texts_is_light() -> None:
    rng = np.random.default_rng(0)
    width, rows, values_per_row = 100_000, 1000, 200
    indices = np.sort(rng.integers(0, width, (rows, values_per_row)), 1).ravel().astype(np.int32)
    sparse_rows = SparseRows(
        np.arange(rows + 1) * values_per_row, indices, np.ones(rows * values_per_row, np.float32), width
    )
    model = LinearModel(np.ones((50, width), np.float32), np.zeros(50, np.float32))
    tracemalloc.start()
    logits = model.sparse_logits(sparse_rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (logits == values_per_row).all()
    assert peak < 40 << 20  # the dense table alone would take 400 MB


def test_a_class_without_rows_is_never_the_answer() -> None:
    features = make_features(200)
    targets = make_targets(features, FOUR_CLASSES)
    has_other_class = targets != 2
    model = fit_linear(features[has_other_class], targets[has_other_class], FOUR_CLASSES, strength=1.0)
    logits = model.logits(features)
    assert np.isfinite(logits).all()
    probs = softmax(logits)
    assert probs[:, 2].max() == 0
    sklearn_model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0)).fit(
        features[has_other_class].astype(float), targets[has_other_class]
    )
    np.testing.assert_allclose(probs[:, [0, 1, 3]], sklearn_model.predict_proba(features), atol=1e-5)


def test_only_two_of_four_classes_have_rows() -> None:
    features = make_features(100)
    targets = np.where(make_targets(features, TWO_CLASSES) == 1, 3, 1)
    probs = softmax(fit_linear(features, targets, FOUR_CLASSES, strength=1.0).logits(features))
    assert probs[:, [0, 2]].max() == 0
    assert ((probs[:, 3] > 0.5) == (targets == 3)).mean() > 0.8


@pytest.mark.parametrize("c", [None, 1.0])
def test_a_single_class(c: float | None) -> None:
    model = fit_linear(make_features(20), np.full(20, 1), FOUR_CLASSES, strength=c)
    probs = softmax(model.logits(make_features(20)))
    assert np.array_equal(probs, np.tile([0, 1, 0, 0], (20, 1)))


def test_labels_that_all_rows_or_no_rows_have() -> None:
    features = make_features(98)
    targets = make_targets(features, LABELS)
    targets[:, 0], targets[:, 2] = True, False
    probs = sigmoid(fit_linear(features, targets, LABELS).logits(features))
    np.testing.assert_allclose(probs[:, 0], 0.99, atol=1e-6)
    np.testing.assert_allclose(probs[:, 2], 0.01, atol=1e-6)
    assert ((probs[:, 1] > 0.5) == targets[:, 1]).mean() > 0.7


def test_numbers_that_never_vary() -> None:
    model = fit_linear(make_features(20), np.full(20, 2.5), NUMBER)
    np.testing.assert_array_equal(model.logits(make_features(20, seed=1)), np.full((20, 1), 2.5, np.float32))


def test_constant_columns_get_no_weight() -> None:
    features = make_features(100)
    features[:, 1] = np.float32(1e6) + np.float32(0.06) * np.arange(100).astype(np.float32) % 2  # rounding noise
    model = fit_linear(features, make_targets(features, TWO_CLASSES), TWO_CLASSES)
    assert (model.weight[:, [1, 3]] == 0).all()
    assert (model.weight[:, [0, 2, 4, 5, 6]] != 0).all()


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
def test_the_same_seed_gives_the_same_bits(space: LabelSpace) -> None:
    features = make_features(120)
    targets = make_targets(features, space)
    first, second = (fit_linear(features, targets, space, seed=3) for _ in range(2))
    assert first.strength == second.strength
    assert np.array_equal(first.weight, second.weight)
    assert np.array_equal(first.bias, second.bias)


def test_a_fit_that_does_not_converge_says_so_and_warns_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "MAX_ITERATIONS", 2)
    features = make_features(200)
    models = [
        fit_linear(features, make_targets(features, space), space, strength=10.0) for space in (FOUR_CLASSES, LABELS)
    ]
    assert [model.converged for model in models] == [False, False]


def test_many_numbers_are_fitted_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    features = make_features(300, 5)
    tfidf, matrix = fit_tfidf(iter_texts(make_texts(300)))
    float64_logits = fit_linear(features, make_targets(features, TWO_CLASSES), TWO_CLASSES, strength=1.0).logits(
        features
    )
    float64_sparse_logits = fit_linear(matrix, make_targets(features, NUMBER), NUMBER, strength=1.0).sparse_logits(
        tfidf.transform(make_texts(300))
    )
    monkeypatch.setattr(linear, "MAX_FLOAT64_SIZE", 0)
    float32_logits = fit_linear(features, make_targets(features, TWO_CLASSES), TWO_CLASSES, strength=1.0).logits(
        features
    )
    np.testing.assert_allclose(softmax(float32_logits), softmax(float64_logits), atol=1e-2)
    float32_model = fit_linear(matrix, make_targets(features, NUMBER), NUMBER, strength=1.0)
    np.testing.assert_allclose(
        float32_model.sparse_logits(tfidf.transform(make_texts(300))), float64_sparse_logits, rtol=1e-3
    )


def test_more_weights_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "MAX_FITTED_WEIGHTS", 20)
    features = make_features(50)
    with pytest.raises(InputError, match="4 classes with 7 features exceed the limit of 20 weights"):
        fit_linear(features, make_targets(features, FOUR_CLASSES), FOUR_CLASSES, strength=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros((5, 2))}, "5 rows and targets 4"),
        ({"features": np.zeros(4)}, "shape"),
        ({"features": np.zeros((4, 0))}, "shape"),
        ({"features": np.array([["a"], ["b"], ["c"], ["d"]])}, "expected numbers"),
        ({"features": np.array([[np.nan], [1], [2], [3]])}, "NaN"),
        ({"features": np.array([[np.inf], [1], [2], [3]])}, "NaN"),
        ({"features": np.array([[1e300], [1], [2], [3]])}, "NaN"),
        ({"targets": [0, 1, 0, 2]}, "there are 2 classes"),
        ({"targets": [0, 1, 0, -1]}, "integers >= 0"),
        ({"targets": []}, "empty"),
        ({"space": LABELS}, "rows, labels"),
        ({"space": LABELS, "targets": np.zeros((4, 2))}, "2 columns"),
        ({"space": NUMBER, "targets": [0, 1, 2, np.nan]}, "finite"),
        ({"space": NUMBER, "targets": [0, 1, 2, 1e15]}, "rescale"),
        ({"space": NUMBER, "class_weight": "auto"}, "supports only classes and labels"),
        ({"space": LabelSpace()}, "no names"),
        ({"strength": 0.0}, "strength"),
        ({"strength": float("inf")}, "strength"),
        ({"strength": float("nan")}, "strength"),
        ({"class_weight": "balanced"}, "none or auto"),
        ({"seed": -1}, "seed"),
    ],
)
def test_inputs_that_cannot_be_fitted(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "features": np.arange(8.0).reshape(4, 2),
        "targets": [0, 1, 0, 1],
        "space": TWO_CLASSES,
        **change,
    }
    with pytest.raises(InputError, match=message):
        fit_linear(arguments.pop("features"), arguments.pop("targets"), arguments.pop("space"), **arguments)


def test_features_that_do_not_fit_the_model() -> None:
    model = LinearModel(np.full((2, 3), 1e20, np.float32), np.zeros(2, np.float32))
    for features in (np.zeros((1, 4)), np.zeros(3), np.array([["a", "b", "c"]])):
        with pytest.raises(InputError, match="rows, 3"):
            model.logits(features)
    for value in (np.nan, np.inf, 1e30):
        with pytest.raises(InputError, match="too large"):
            model.logits(np.full((1, 3), value))
    with pytest.raises(InputError, match="expected 3"):
        model.sparse_logits(SparseRows(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), 4))


@pytest.mark.parametrize("space", [TWO_CLASSES, LABELS, NUMBER], ids=["two", "labels", "number"])
def test_without_scikit_learn_the_extra_is_named(space: LabelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    features = make_features(30)
    with pytest.raises(MissingExtraError, match=r"clearhead\[train\]"):
        fit_linear(features, make_targets(features, space), space)
