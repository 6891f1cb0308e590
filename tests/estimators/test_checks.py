"""scikit-learn's own checks of an estimator.

`check_estimator` uses numeric tables and skips most checks for text input. So every estimator is checked twice:
as it is, and as a subclass that converts numeric rows to words, to which all checks apply.
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


def spell_rows(table: Array, vocabulary: Sequence[str] = ()) -> list[str]:
    """Write a word for every threshold that a number exceeds, so that similar rows share most of their words."""
    positions = [(column, step) for column in range(table.shape[1]) for step in range(len(STEPS))]
    spellings = {(column, step): f"c{column}s{step}" for column, step in positions}
    if vocabulary:
        spellings = {(column, step): vocabulary[(7 * column + step) % len(vocabulary)] for column, step in positions}
    return [
        "the " + " ".join(spellings[column, step] for column, step in positions if row[column] >= STEPS[step])
        for row in np.asarray(table, float)
    ]


class TableTags:
    """Declares numeric tables as input."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = True, False, False
        return tags


class NumericInput(TableTags):
    """Converts tables to texts for the estimator."""

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        if y is None:
            return super().fit(["a"], y)  # type: ignore[misc]
        X = validate_data(self, X, ensure_min_samples=2)
        fitted = super().fit(spell_rows(X), y, **fit_params)  # type: ignore[misc]
        self.n_features_in_ = X.shape[1]
        return fitted

    def _read_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        table = validate_data(self, X, reset=False)
        width, self.n_features_in_ = self.n_features_in_, 1
        try:
            return super()._read_rows(spell_rows(table))  # type: ignore[misc]
        finally:
            self.n_features_in_ = width


class NumberClassifier(NumericInput, TextClassifier):
    """A classifier of tables."""


class NumberRegressor(NumericInput, TextRegressor):
    """A regressor of tables."""


class NumberEncoder(TableTags, TextEncoder):
    """A transformer of tables."""

    def fit(self, X: Any, y: Any = None) -> Any:
        X = validate_data(self, X)
        fitted = TextEncoder.fit(self, spell_rows(X, NEUTRAL_WORDS), y)
        self.n_features_in_ = X.shape[1]
        return fitted

    def transform(self, X: Any) -> Array:
        check_is_fitted(self)
        return TextEncoder.transform(self, spell_rows(validate_data(self, X, reset=False), NEUTRAL_WORDS))


def count_passed_checks(estimator: Any, **expected: str) -> int:
    """Run the checks of scikit-learn; return how many passed, and fail if the others are not expected to fail."""
    check_results = check_estimator(estimator, expected_failed_checks=expected, on_skip=None)
    failed = {check_result["check_name"] for check_result in check_results if check_result["status"] == "xfail"}
    assert failed == set(expected)  # every exception is needed
    return sum(check_result["status"] == "passed" for check_result in check_results)


def test_a_classifier_passes() -> None:
    weights = "the check gives weights by class; Clearhead takes None or 'balanced'"
    assert count_passed_checks(NumberClassifier(method="tfidf", C=10.0), check_class_weight_classifiers=weights) >= 55


def test_a_regressor_passes() -> None:
    assert count_passed_checks(NumberRegressor(method="tfidf", C=1.0)) >= 50


def test_an_encoder_passes(tmp_path: Path) -> None:
    model = tiny_model(tmp_path, max_position_embeddings=512)
    assert count_passed_checks(NumberEncoder(model=str(model))) >= 40


@pytest.mark.parametrize(
    "estimator", [TextClassifier(), TextRegressor(), TextEncoder()], ids=lambda estimator: type(estimator).__name__
)
def test_as_they_are_the_checks_that_take_texts_pass(estimator: Any) -> None:
    with pytest.warns(SkipTestWarning, match="requires input"):
        check_results = check_estimator(estimator)
    assert [check_result["status"] for check_result in check_results] == ["passed"]
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
