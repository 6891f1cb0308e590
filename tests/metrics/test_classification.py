"""Classification metrics are equal to those of scikit-learn."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from clearhead.metrics import (
    accuracy,
    balanced_accuracy,
    confusion_matrix,
    f1,
    label_table,
    matthews_corrcoef,
    precision,
    proportion,
    recall,
    subset_accuracy,
)
from tests.metrics.rows import Array, class_columns, label_tables, silent

AVERAGED_METRICS = [
    (precision, reference.precision_score),
    (recall, reference.recall_score),
    (f1, reference.f1_score),
]


@given(class_columns())
def test_shares_equal_the_reference(rows: tuple[Array, Array]) -> None:
    assert accuracy(*rows) == pytest.approx(reference.accuracy_score(*rows))
    assert balanced_accuracy(*rows) == pytest.approx(silent(reference.balanced_accuracy_score)(*rows))
    assert matthews_corrcoef(*rows) == pytest.approx(silent(reference.matthews_corrcoef)(*rows))


@given(class_columns(), st.sampled_from(["macro", "micro", "weighted"]))
def test_averages_equal_the_reference(rows: tuple[Array, Array], average: str) -> None:
    for metric, expected_metric in AVERAGED_METRICS:
        assert metric(*rows, average=average) == pytest.approx(expected_metric(*rows, average=average, zero_division=0))


@given(class_columns(max_classes=2), st.integers(0, 1))
def test_binary_equals_the_reference(rows: tuple[Array, Array], positive: int) -> None:
    present = np.unique(np.concatenate(rows))
    for metric, expected_metric in AVERAGED_METRICS:
        score = metric(*rows, average="binary", positive=positive)
        if positive not in present:
            assert score == 0
        else:
            # average="binary" of scikit-learn requires both classes; labels= with one class is the same number
            assert score == pytest.approx(expected_metric(*rows, labels=[positive], average="macro", zero_division=0))


@given(label_tables(), st.sampled_from(["macro", "micro", "weighted", "samples"]))
def test_several_labels_equal_the_reference(rows: tuple[Array, Array], average: str) -> None:
    for metric, expected_metric in AVERAGED_METRICS:
        assert metric(*rows, average=average) == pytest.approx(expected_metric(*rows, average=average, zero_division=0))
    assert subset_accuracy(*rows) == pytest.approx(reference.accuracy_score(*rows))


@given(class_columns())
def test_confusion_equals_the_reference(rows: tuple[Array, Array]) -> None:
    assert (confusion_matrix(*rows, 5) == reference.confusion_matrix(*rows, labels=range(5))).all()
    assert confusion_matrix(*rows).shape == (max(map(np.max, rows)) + 1,) * 2


@given(class_columns())
def test_the_table_equals_the_reference(rows: tuple[Array, Array]) -> None:
    table = label_table(*rows, names=list("abcde"))
    expected = reference.precision_recall_fscore_support(*rows, labels=range(5), zero_division=0)
    assert [row.label for row in table] == list("abcde")
    for row, *values in zip(table, *expected, strict=True):
        assert [row.precision, row.recall, row.f1, row.rows] == pytest.approx(values)
    assert sum(row.predicted for row in table) == len(rows[0])


@given(label_tables())
def test_the_table_of_several_labels_equals_the_reference(rows: tuple[Array, Array]) -> None:
    expected = reference.precision_recall_fscore_support(*rows, zero_division=0)
    for row, *values in zip(label_table(*rows), *expected, strict=True):
        assert [row.precision, row.recall, row.f1, row.rows] == pytest.approx(values)


@given(class_columns(), st.integers(0, 999))
def test_order_does_not_matter(rows: tuple[Array, Array], seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(len(rows[0]))
    for metric in (accuracy, balanced_accuracy, matthews_corrcoef, precision, recall, f1):
        assert metric(*rows) == pytest.approx(metric(*(column[shuffled] for column in rows)))


def test_one_wrong_answer_is_seen() -> None:
    labels = np.array([0, 1, 2, 1, 0, 2])
    predictions = np.array([0, 1, 2, 1, 0, 1])
    for metric in (accuracy, balanced_accuracy, matthews_corrcoef, precision, recall, f1):
        assert metric(labels, labels) == 1
        assert metric(labels, predictions) < 0.95


def test_numbers_known_by_heart() -> None:
    labels, predictions = [0, 0, 1, 1, 1], [0, 1, 1, 1, 0]
    assert accuracy(labels, predictions) == 0.6
    assert f1(labels, predictions, average="binary") == pytest.approx(2 / 3)
    assert confusion_matrix(labels, predictions).tolist() == [[1, 1], [1, 2]]  # rows are the truth
    assert proportion([True, False, True, True]) == 0.75


def test_a_metric_is_an_ordinary_function() -> None:
    signature = inspect.signature(f1)
    assert list(signature.parameters) == ["labels", "predictions", "average", "positive"]
    assert signature.return_annotation == "float"
    assert type(accuracy([1], [1])) is float
    assert f1.__doc__ is not None
    assert f1.__doc__.startswith("Harmonic mean")
