"""All metrics of a kind of task at once, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import ArrayLike, check_class_ids, check_probabilities, check_same_rows
from clearhead.metrics.classification import (
    accuracy,
    balanced_accuracy,
    f1,
    matthews_corrcoef,
    precision,
    recall,
    subset_accuracy,
)
from clearhead.metrics.correlation import mae, mse, pearson, r2, spearman
from clearhead.metrics.intervals import Interval, bootstrap_all
from clearhead.metrics.probability import average_precision, log_loss, roc_auc

Metrics = Mapping[str, Callable[..., float]]

KINDS = ("classify", "multilabel", "regress")
CLASSIFY: Metrics = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "f1_macro": partial(f1, average="macro"),
    "f1_micro": partial(f1, average="micro"),
    "f1_weighted": partial(f1, average="weighted"),
    "matthews": matthews_corrcoef,
}
BINARY: Metrics = {
    "precision": partial(precision, average="binary"),
    "recall": partial(recall, average="binary"),
    "f1": partial(f1, average="binary"),
}
MULTILABEL: Metrics = {
    "subset_accuracy": subset_accuracy,
    "f1_macro": partial(f1, average="macro"),
    "f1_micro": partial(f1, average="micro"),
    "f1_weighted": partial(f1, average="weighted"),
    "f1_samples": partial(f1, average="samples"),
    "precision_micro": partial(precision, average="micro"),
    "recall_micro": partial(recall, average="micro"),
}
PROBS: Metrics = {"roc_auc": roc_auc, "pr_auc": average_precision, "log_loss": log_loss}
REGRESS: Metrics = {"pearson": pearson, "spearman": spearman, "mse": mse, "mae": mae, "r2": r2}


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """A row of a metrics table."""

    name: str
    value: float
    low: float
    high: float


def measure(
    kind: str,
    labels: ArrayLike,
    predictions: ArrayLike,
    probs: ArrayLike | None = None,
    *,
    classes: int | None = None,
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    groups: ArrayLike | None = None,
) -> dict[str, Interval]:
    """Compute every metric of a kind of task ("classify", "multilabel" or "regress") by name.

    ROC AUC, PR AUC and log loss require probs. Binary tasks add precision, recall and F1 of class 1. The number of
    classes is `classes` if given, else the number of columns of probs, else the largest class id plus 1.
    """
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}.")
    bootstrap_metrics = partial(bootstrap_all, n=n, level=level, seed=seed, groups=groups)
    if kind == "regress":
        return bootstrap_metrics(REGRESS, labels, predictions)
    if kind == "multilabel":
        measures = bootstrap_metrics(MULTILABEL, labels, predictions)
    else:
        is_binary = _count_classes(labels, predictions, probs, classes) <= 2
        measures = bootstrap_metrics({**CLASSIFY, **BINARY} if is_binary else CLASSIFY, labels, predictions)
    if probs is None:
        return measures
    check_probabilities(probs, sum_to_one=kind == "classify")
    return measures | bootstrap_metrics(PROBS, labels, probs)


def to_json(measures: Mapping[str, Interval]) -> dict[str, dict[str, float | None]]:
    """Convert intervals to the JSON of `evaluate --json`; undefined values become null."""
    return {
        name: {
            "value": _none_if_nan(interval.value),
            "low": _none_if_nan(interval.low),
            "high": _none_if_nan(interval.high),
        }
        for name, interval in measures.items()
    }


def metric_rows(measures: Mapping[str, Interval]) -> tuple[MetricRow, ...]:
    """Convert intervals to the rows of a table."""
    return tuple(
        MetricRow(name=name, value=interval.value, low=interval.low, high=interval.high)
        for name, interval in measures.items()
    )


def _count_classes(labels: ArrayLike, predictions: ArrayLike, probs: ArrayLike | None, classes: int | None) -> int:
    """Count the classes, and require that every label and prediction is one of them."""
    if classes is None and probs is not None:
        checked_probs = check_probabilities(probs, sum_to_one=True)
        classes = 2 if checked_probs.ndim == 1 else checked_probs.shape[1]
    true, predicted = (
        check_class_ids(labels, "labels", n_classes=classes),
        check_class_ids(predictions, "predictions", n_classes=classes),
    )
    check_same_rows(labels=true, predictions=predicted)
    return int(max(true.max(), predicted.max())) + 1 if classes is None else classes


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else float(np.float64(value))
