"""How far weights may grow is chosen on rows that the fit did not see."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from clearhead.classic import fit_linear, solver, strength
from clearhead.data import LabelSpace
from tests.classic.texts import FOUR, NUMBER, TAGS, TWO, made_features, made_targets

sparse: Any = import_module("scipy.sparse")  # brings no types

SPACES = [TWO, FOUR, TAGS, NUMBER]
NAMES = ["two", "four", "labels", "number"]


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_strength_is_chosen_from_the_rows(space: LabelSpace, kind: str) -> None:
    features = made_features(200, 30) / 10.0 ** np.arange(-2, 28)
    clear = made_targets(features, space, 1)
    noise = np.random.default_rng(5).permutation(clear)
    given = features if kind == "dense" else sparse.csr_matrix(features / np.linalg.norm(features, axis=1)[:, None])
    grid = strength.DENSE if kind == "dense" else strength.SPARSE
    learned, empty = fit_linear(given, clear, space).strength, fit_linear(given, noise, space).strength
    assert learned in grid
    assert empty is not None
    assert learned is not None
    assert empty < learned


def test_the_chosen_strength_has_the_smallest_held_out_loss() -> None:
    features = made_features(250, 20) / 10.0 ** np.arange(-2, 18)
    targets = made_targets(features, FOUR, 2)
    scaled = StandardScaler().fit_transform(features)
    rows = np.random.default_rng(0).permutation(250)
    x, y = scaled[rows], targets[rows]
    folds = strength.assign_folds(y, "classes")
    losses = {}
    for c in strength.DENSE:
        rights = []
        for fold in range(5):
            model = LogisticRegression(C=c, max_iter=2000).fit(x[folds != fold], y[folds != fold])
            rights += list(
                model.predict_log_proba(x[folds == fold])[np.arange((folds == fold).sum()), y[folds == fold]]
            )
        losses[c] = -np.mean(rights)
    assert fit_linear(features, targets, FOUR).strength == min(losses, key=losses.__getitem__)


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
    features = made_features(rows + 1)[:rows]
    made = fit_linear(features, made_targets(features, space), space)
    assert made.strength == 1.0
    assert np.isfinite(made.logits(features)).all()


def test_rare_classes_with_many_rows_can_be_chosen_on() -> None:
    features = made_features(60)
    targets = np.where(np.arange(60) < 50, 0, np.arange(60) % 4)
    made = fit_linear(features, targets, FOUR, class_weight="auto")
    assert made.strength in strength.DENSE


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
def test_many_rows_are_sampled_and_fewer_folds_are_fitted(space: LabelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    features = made_features(400)
    targets = made_targets(features, space)
    fits = []

    def counted(matrix: Any, *args: Any, **more: Any) -> Any:
        fits.append(len(matrix))
        return solver.fit_coefficients(matrix, *args, **more)

    monkeypatch.setattr(strength, "fit_coefficients", counted)
    monkeypatch.setattr(strength, "MOST_ROWS", 200)
    monkeypatch.setattr(strength, "ENOUGH_HELD", 80)
    made = fit_linear(features, targets, space)
    assert made.strength in strength.DENSE
    assert set(fits) == {160}  # 200 rows without a fifth
    assert len(fits) % 2 == 0  # two folds hold out 80 rows


def test_classes_count_alike_where_that_is_asked() -> None:
    losses, targets = np.array([1.0, 1.0, 1.0, 5.0]), np.array([0, 0, 0, 3])
    assert strength.mean_loss(losses, targets, "classes", balanced=False) == 2
    assert strength.mean_loss(losses, targets, "classes", balanced=True) == 3
    table = np.array([[True, False], [False, False], [False, True], [False, False]])
    each = np.array([[5.0, 1.0], [1.0, 1.0], [1.0, 9.0], [1.0, 1.0]])
    assert strength.mean_loss(each, table, "multilabel", balanced=False) == 2.5
    assert strength.mean_loss(each, table, "multilabel", balanced=True) == 4


def test_class_weight_reaches_the_choice() -> None:
    features = made_features(300, 40) / 10.0 ** np.arange(-2, 38)
    targets = np.where(made_targets(features, TWO, 4) * (np.arange(300) % 5 == 0), 1, 0)
    plain = fit_linear(features, targets, TWO).strength
    assert fit_linear(features, targets, TWO, class_weight="auto").strength != plain
