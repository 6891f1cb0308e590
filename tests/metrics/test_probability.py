"""Areas and losses of probabilities are equal to those of scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from clearhead.metrics import average_precision, brier_score, log_loss, roc_auc
from tests.metrics.rows import Array, class_columns, label_tables, labels_and_probs, silent


@given(labels_and_probs(max_classes=2))
def test_areas_of_two_classes_equal_the_reference(rows: tuple[Array, Array]) -> None:
    labels, probs = rows
    if len(set(labels.tolist())) < 2:
        assert math.isnan(roc_auc(labels, probs))
    else:
        assert roc_auc(labels, probs) == pytest.approx(reference.roc_auc_score(labels, probs[:, 1]))
    if labels.any():
        assert average_precision(labels, probs) == pytest.approx(reference.average_precision_score(labels, probs[:, 1]))
    else:
        assert math.isnan(average_precision(labels, probs))
    assert roc_auc(labels, probs) == pytest.approx(roc_auc(labels, probs[:, 1]), nan_ok=True)


@given(labels_and_probs(min_classes=3))
def test_areas_of_many_classes_are_means_over_those_there(rows: tuple[Array, Array]) -> None:
    labels, probs = rows
    present = set(labels.tolist())
    areas = [
        reference.roc_auc_score(labels == class_id, probs[:, class_id]) for class_id in present if len(present) > 1
    ]
    assert roc_auc(labels, probs) == pytest.approx(np.mean(areas) if areas else math.nan, nan_ok=True)
    if len(present) == probs.shape[1]:
        assert roc_auc(labels, probs) == pytest.approx(reference.roc_auc_score(labels, probs, multi_class="ovr"))
    expected_precisions = [
        reference.average_precision_score(labels == class_id, probs[:, class_id]) for class_id in present
    ]
    assert average_precision(labels, probs) == pytest.approx(np.mean(expected_precisions))


@given(label_tables(), st.integers(0, 999))
def test_areas_of_several_labels(rows: tuple[Array, Array], seed: int) -> None:
    labels = rows[0]
    scores = np.asarray(np.random.default_rng(seed).random(labels.shape)).round(1)
    defined_columns = [column for column in range(labels.shape[1]) if 0 < labels[:, column].mean() < 1]
    areas = [reference.roc_auc_score(labels[:, column], scores[:, column]) for column in defined_columns]
    assert roc_auc(labels, scores) == pytest.approx(np.mean(areas) if areas else math.nan, nan_ok=True)
    losses = [
        reference.log_loss(labels[:, column], scores[:, column], labels=[0, 1]) for column in range(labels.shape[1])
    ]
    assert log_loss(labels, scores) == pytest.approx(np.mean(losses))
    briers = [
        silent(reference.brier_score_loss)(labels[:, column], scores[:, column], labels=[0, 1])
        for column in range(labels.shape[1])
    ]
    assert brier_score(labels, scores) == pytest.approx(np.mean(briers))


@given(labels_and_probs())
def test_losses_equal_the_reference(rows: tuple[Array, Array]) -> None:
    labels, probs = rows
    class_ids = range(probs.shape[1])
    assert log_loss(labels, probs) == pytest.approx(reference.log_loss(labels, probs, labels=class_ids))
    expected = silent(reference.brier_score_loss)(
        labels, probs if len(class_ids) > 2 else probs[:, 1], labels=class_ids
    )
    assert brier_score(labels, probs) == pytest.approx(expected)
    if len(class_ids) == 2:
        assert log_loss(labels, probs[:, 1]) == pytest.approx(log_loss(labels, probs))
        assert brier_score(labels, probs[:, 1]) == pytest.approx(brier_score(labels, probs))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_certain_mistake_costs_what_the_reference_says(dtype: type) -> None:
    probs: Array = np.array([[1, 0], [0, 1], [0.5, 0.5]], dtype)
    labels = np.array([1, 1, 0])
    assert log_loss(labels, probs) == pytest.approx(silent(reference.log_loss)(labels, probs), rel=1e-5)


@given(class_columns(max_classes=2), st.integers(0, 999))
def test_order_does_not_matter(rows: tuple[Array, Array], seed: int) -> None:
    labels = rows[0]
    rng = np.random.default_rng(seed)
    scores, shuffled = rng.random(len(labels)).round(1), rng.permutation(len(labels))
    for metric in (roc_auc, average_precision, log_loss, brier_score):
        assert metric(labels, scores) == pytest.approx(metric(labels[shuffled], scores[shuffled]), nan_ok=True)


def test_any_scores_have_an_area() -> None:
    labels, logits = np.array([0, 0, 1, 1]), np.array([-5.0, 2.0, 1.0, 30.0])
    assert roc_auc(labels, logits) == 0.75
    assert roc_auc(labels, -logits) == 0.25
    assert roc_auc(labels, np.zeros(4)) == 0.5
    assert average_precision(labels, np.zeros(4)) == 0.5
