"""All metrics of a task, as Python values and as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from clearhead.metrics import (
    MetricRow,
    accuracy,
    bootstrap,
    count_entities,
    log_loss,
    measure,
    measure_translations,
    metric_rows,
    pearson,
    proportion,
    roc_auc,
    slice_table,
    to_json,
    wilson_interval,
)
from tests.metrics.rows import Array, label_tables, labels_and_probs, real_pairs

CLASSES = ["accuracy", "balanced_accuracy", "f1_macro", "f1_micro", "f1_weighted", "matthews"]
POSITIVE = ["precision", "recall", "f1"]
SCORES = ["roc_auc", "pr_auc", "log_loss"]
LABELS = [
    "subset_accuracy",
    "f1_macro",
    "f1_micro",
    "f1_weighted",
    "f1_samples",
    "precision_micro",
    "recall_micro",
]


@given(labels_and_probs())
def test_classify_has_all_its_names(rows: tuple[Array, Array]) -> None:
    labels, probs = rows
    measures = measure("classify", labels, probs.argmax(1), probs, n=30)
    assert list(measures) == CLASSES + (POSITIVE if probs.shape[1] == 2 else []) + SCORES
    assert measures["accuracy"].value == accuracy(labels, probs.argmax(1))
    assert measures["roc_auc"].value == pytest.approx(roc_auc(labels, probs), nan_ok=True)
    assert measures["log_loss"] == bootstrap(log_loss, labels, probs, n=30)
    json.dumps(to_json(measures), allow_nan=False)


@given(label_tables(), st.booleans())
def test_multilabel_has_all_its_names(rows: tuple[Array, Array], has_scores: bool) -> None:
    measures = measure("multilabel", *rows, rows[1] * 0.8 + 0.1 if has_scores else None, n=30)
    assert list(measures) == LABELS + (SCORES if has_scores else [])
    json.dumps(to_json(measures), allow_nan=False)


@given(real_pairs())
def test_regress_has_all_its_names(rows: tuple[Array, Array]) -> None:
    measures = measure("regress", *rows, n=30)
    assert list(measures) == ["pearson", "spearman", "mse", "mae", "r2"]
    assert measures["pearson"].value == pytest.approx(pearson(*rows), nan_ok=True)
    json.dumps(to_json(measures), allow_nan=False)


def test_every_name_means_what_the_reference_means() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 60) * (rng.random(60) < 0.7)
    probs = np.clip(labels * 0.3 + rng.random(60) * 0.7, 0, 1)
    predictions = (probs >= 0.5).astype(int)
    for name, interval in measure("classify", labels, predictions, probs, n=0).items():
        stem, _, average = name.partition("_")
        if stem in ("f1", "precision", "recall"):
            expected = getattr(reference, f"{stem}_score")(labels, predictions, average=average or "binary")
        elif name in SCORES:
            sklearn_name = {"pr_auc": "average_precision_score", "roc_auc": "roc_auc_score"}.get(name, name)
            expected = getattr(reference, sklearn_name)(labels, probs)
        else:
            sklearn_name = {"matthews": "matthews_corrcoef"}.get(name, f"{name}_score")
            expected = getattr(reference, sklearn_name)(labels, predictions)
        assert interval.value == pytest.approx(expected), name
    label_table, predicted_table = rng.integers(0, 2, (60, 3)), rng.integers(0, 2, (60, 3))
    for name, interval in measure("multilabel", label_table, predicted_table, n=0).items():
        stem, _, average = name.partition("_")
        if name == "subset_accuracy":
            expected = reference.accuracy_score(label_table, predicted_table)
        else:
            expected = getattr(reference, f"{stem}_score")(label_table, predicted_table, average=average)
        assert interval.value == pytest.approx(expected), name


def test_two_classes_are_known_from_probabilities_or_said() -> None:
    labels, predictions = [0, 1, 1, 0], [0, 1, 0, 0]
    assert "f1" in measure("classify", labels, predictions)
    assert "f1" in measure("classify", labels, predictions, [0.2, 0.9, 0.4, 0.1])
    assert "f1" not in measure("classify", labels, predictions, classes=3)
    assert "f1" not in measure("classify", labels, predictions, np.full((4, 3), 1 / 3))
    assert "f1" in measure("classify", [0, 0, 0, 0], [0, 0, 0, 0], classes=2)


def test_every_value_lies_in_its_interval() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 500)
    probs = np.clip(labels * 0.3 + rng.random(500) * 0.7, 0, 1)
    for name, interval in measure("classify", labels, probs >= 0.5, probs).items():
        assert interval.low < interval.value < interval.high, name
        assert (interval.n, interval.skipped) == (1000, 0)


def test_what_is_not_known_is_null() -> None:
    measures = measure("classify", [0, 0], [0, 1], [0.1, 0.6])
    assert to_json(measures)["roc_auc"] == {"value": None, "low": None, "high": None}
    assert to_json(measures)["accuracy"]["value"] == 0.5
    assert metric_rows(measures)[0] == MetricRow(
        name="accuracy", value=0.5, low=measures["accuracy"].low, high=measures["accuracy"].high
    )
    single_row = to_json(measure("regress", [1.0], [2.0]))
    assert single_row["mse"] == {"value": 1.0, "low": None, "high": None}
    assert single_row["pearson"]["value"] is None


def test_groups_and_levels_reach_every_metric() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    predictions = np.where(np.repeat(rng.random(20) < 0.7, 10), labels, 1 - labels)
    groups = np.repeat(np.arange(20), 10)
    ungrouped, grouped = (
        measure("classify", labels, predictions),
        measure("classify", labels, predictions, groups=groups, level=0.9),
    )
    assert grouped["accuracy"].level == 0.9
    assert grouped["accuracy"].high - grouped["accuracy"].low > ungrouped["accuracy"].high - ungrouped["accuracy"].low
    assert all(math.isnan(interval.low) for interval in measure("classify", labels, predictions, n=0).values())


def test_former_parameters_still_work_and_warn() -> None:
    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], dict[str, Any]]] = [
        (wilson_interval, (), {"right": 3, "rows": 4}, {"correct": 3, "rows": 4}),
        (slice_table, ({"x": ["a"] * 40}, proportion, [1] * 40), {"least": 50}, {"min_rows": 50}),
        (count_entities, ([[(0, 1, "PER")]],), {"said": [[(0, 1, "PER")]]}, {"predicted": [[(0, 1, "PER")]]}),
        (measure_translations, (["a b"], ["a b"], [2]), {"least": 1, "n": 0}, {"min_rows": 1, "n": 0}),
    ]
    for function, arrays, former, current in calls:
        with pytest.warns(DeprecationWarning, match="will be removed"):
            result = function(*arrays, **former)
        assert str(result) == str(function(*arrays, **current))
