"""scikit-learn's own checks of an estimator.

`check_estimator` feeds tables of numbers, and passes by whatever reads texts. So every estimator is checked twice: as
it is, and behind a reader that writes the numbers of a row as words, which puts all of the checks to the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils import estimator_checks as checks
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

from clearhead import TextClassifier, TextEncoder, TextRegressor
from tests.metrics.rows import Array
from tests.tiny_models import NEUTRAL_WORDS, tiny_model

STEPS = np.linspace(-4, 4, 33)


def words(table: Array, known: Sequence[str] = ()) -> list[str]:
    """A word for every step that a number has passed, so that near numbers share most of their words."""
    every = [(column, step) for column in range(table.shape[1]) for step in range(len(STEPS))]
    spelled = {(column, step): f"c{column}s{step}" for column, step in every}
    if known:
        spelled = {one: known[(7 * one[0] + one[1]) % len(known)] for one in every}
    return [
        "the " + " ".join(spelled[column, step] for column, step in every if row[column] >= STEPS[step])
        for row in np.asarray(table, float)
    ]


class Tables:
    """Says that it reads tables."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = True, False, False
        return tags


class OfNumbers(Tables):
    """Reads tables as texts; the rest is the estimator's."""

    def fit(self, X: Any, y: Any = None, **others: Any) -> Any:
        if y is None:
            return super().fit(["a"], y)  # type: ignore[misc]
        X = validate_data(self, X, ensure_min_samples=2)
        made = super().fit(words(X), y, **others)  # type: ignore[misc]
        self.n_features_in_ = X.shape[1]
        return made

    def _read_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        table = validate_data(self, X, reset=False)
        width, self.n_features_in_ = self.n_features_in_, 1
        try:
            return super()._read_rows(words(table))  # type: ignore[misc]
        finally:
            self.n_features_in_ = width


class NumberClassifier(OfNumbers, TextClassifier):
    """A classifier of tables."""


class NumberRegressor(OfNumbers, TextRegressor):
    """A regressor of tables."""


class NumberEncoder(Tables, TextEncoder):
    """A transformer of tables."""

    def fit(self, X: Any, y: Any = None) -> Any:
        X = validate_data(self, X)
        made = TextEncoder.fit(self, words(X, NEUTRAL_WORDS), y)
        self.n_features_in_ = X.shape[1]
        return made

    def transform(self, X: Any) -> Array:
        check_is_fitted(self)
        return TextEncoder.transform(self, words(validate_data(self, X, reset=False), NEUTRAL_WORDS))


def passed(estimator: Any, **expected: str) -> int:
    """How many checks an estimator passes; one that it fails, and may not, is an error."""
    found = check_estimator(estimator, expected_failed_checks=expected, on_skip=None)
    failed = {one["check_name"] for one in found if one["status"] == "xfail"}
    assert failed == set(expected)  # nothing is excused that would pass
    return sum(one["status"] == "passed" for one in found)


def test_a_classifier_passes() -> None:
    weights = "the check gives weights by class; Clearhead takes None or 'balanced'"
    assert passed(NumberClassifier(method="tfidf", C=10.0), check_class_weight_classifiers=weights) >= 55


def test_a_regressor_passes() -> None:
    assert passed(NumberRegressor(method="tfidf", C=1.0)) >= 50


def test_an_encoder_passes(tmp_path: Path) -> None:
    model = tiny_model(tmp_path, max_position_embeddings=512)
    assert passed(NumberEncoder(model=str(model))) >= 40


@pytest.mark.parametrize(
    "estimator", [TextClassifier(), TextRegressor(), TextEncoder()], ids=lambda one: str(type(one))
)
def test_as_they_are_the_checks_that_take_texts_pass(estimator: Any) -> None:
    with pytest.warns(SkipTestWarning, match="requires input"):
        found = check_estimator(estimator)
    assert [one["status"] for one in found] == ["passed"]
    for check in (
        checks.check_estimator_tags_renamed,
        checks.check_valid_tag_types,
        checks.check_estimator_repr,
        checks.check_no_attributes_set_in_init,
        checks.check_do_not_raise_errors_in_init_or_set_params,
        checks.check_mixin_order,
        checks.check_get_params_invariance,
        checks.check_set_params,
    ):
        check(type(estimator).__name__, estimator)
    checks.check_parameters_default_constructible(type(estimator).__name__, estimator)
