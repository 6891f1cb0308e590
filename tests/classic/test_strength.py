"""The regularization strength is chosen on held-out rows."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from clearhead.classic import fit_linear, solver, strength
from clearhead.data import LabelSpace
from tests.classic.texts import FOUR_CLASSES, LABELS, NUMBER, TWO_CLASSES, make_features, make_targets

sparse: Any = import_module("scipy.sparse")  # has no type stubs

SPACES = [TWO_CLASSES, FOUR_CLASSES, LABELS, NUMBER]
NAMES = ["two", "four", "labels", "number"]


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_the_strength_is_chosen_from_the_rows(space: LabelSpace, storage: str) -> None:
    features = make_features(200, 30) / 10.0 ** np.arange(-2, 28)
    targets = make_targets(features, space, 1)
    shuffled_targets = np.random.default_rng(5).permutation(targets)
    matrix = features if storage == "dense" else sparse.csr_matrix(features / np.linalg.norm(features, axis=1)[:, None])
    grid = strength.DENSE_GRID if storage == "dense" else strength.SPARSE_GRID
    informative_strength, noise_strength = (
        fit_linear(matrix, targets, space).strength,
        fit_linear(matrix, shuffled_targets, space).strength,
    )
    assert informative_strength in grid
    assert noise_strength is not None
    assert informative_strength is not None
    assert noise_strength < informative_strength


def test_the_chosen_strength_has_the_smallest_held_out_loss() -> None:
    features = make_features(250, 20) / 10.0 ** np.arange(-2, 18)
    targets = make_targets(features, FOUR_CLASSES, 2)
    scaled = StandardScaler().fit_transform(features)
    rows = np.random.default_rng(0).permutation(250)
    x, y = scaled[rows], targets[rows]
    folds = strength.assign_folds(y, "classes")
    losses = {}
    for candidate in strength.DENSE_GRID:
        log_likelihoods = []
        for fold in range(5):
            model = LogisticRegression(C=candidate, max_iter=2000).fit(x[folds != fold], y[folds != fold])
            log_likelihoods += list(
                model.predict_log_proba(x[folds == fold])[np.arange((folds == fold).sum()), y[folds == fold]]
            )
        losses[candidate] = -np.mean(log_likelihoods)
    assert fit_linear(features, targets, FOUR_CLASSES).strength == min(losses, key=losses.__getitem__)


def test_folds_leave_every_class_a_row() -> None:
    targets = np.array([0] * 40 + [1] * 2 + [2] + [3] * 7)
    folds = strength.assign_folds(targets, "classes")
    assert folds[targets == 2] == [-1]
    for fold in range(strength.FOLDS):
        assert set(targets[folds != fold]) == {0, 1, 2, 3}
        assert 8 <= (folds == fold).sum() <= 12


@pytest.mark.parametrize("rows", [1, 2, 5, 9])
@pytest.mark.parametrize("space", SPACES, ids=NAMES)
def test_too_few_rows_to_choose(rows: int, space: LabelSpace) -> None:
    features = make_features(rows + 1)[:rows]
    model = fit_linear(features, make_targets(features, space), space)
    assert model.strength == 1.0
    assert np.isfinite(model.logits(features)).all()


def test_rare_classes_with_many_rows_can_be_chosen_on() -> None:
    features = make_features(60)
    targets = np.where(np.arange(60) < 50, 0, np.arange(60) % 4)
    model = fit_linear(features, targets, FOUR_CLASSES, class_weight="auto")
    assert model.strength in strength.DENSE_GRID


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
def test_many_rows_are_sampled_and_fewer_folds_are_fitted(space: LabelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    features = make_features(400)
    targets = make_targets(features, space)
    row_counts = []

    def fit_and_count(matrix: Any, *args: Any, **more: Any) -> Any:
        row_counts.append(len(matrix))
        return solver.fit_coefficients(matrix, *args, **more)

    monkeypatch.setattr(strength, "fit_coefficients", fit_and_count)
    monkeypatch.setattr(strength, "MAX_ROWS", 200)
    monkeypatch.setattr(strength, "ENOUGH_HELD_OUT_ROWS", 80)
    model = fit_linear(features, targets, space)
    assert model.strength in strength.DENSE_GRID
    assert set(row_counts) == {160}  # 200 rows without the held-out fifth
    assert len(row_counts) % 2 == 0  # two folds hold out 80 rows


def test_classes_count_alike_where_that_is_asked() -> None:
    losses, targets = np.array([1.0, 1.0, 1.0, 5.0]), np.array([0, 0, 0, 3])
    assert strength.average_losses(losses, targets, "classes", balanced=False) == 2
    assert strength.average_losses(losses, targets, "classes", balanced=True) == 3
    table = np.array([[True, False], [False, False], [False, True], [False, False]])
    table_losses = np.array([[5.0, 1.0], [1.0, 1.0], [1.0, 9.0], [1.0, 1.0]])
    assert strength.average_losses(table_losses, table, "multilabel", balanced=False) == 2.5
    assert strength.average_losses(table_losses, table, "multilabel", balanced=True) == 4


def test_class_weight_reaches_the_choice() -> None:
    features = make_features(300, 40) / 10.0 ** np.arange(-2, 38)
    targets = np.where(make_targets(features, TWO_CLASSES, 4) * (np.arange(300) % 5 == 0), 1, 0)
    unweighted = fit_linear(features, targets, TWO_CLASSES).strength
    assert fit_linear(features, targets, TWO_CLASSES, class_weight="auto").strength != unweighted
