"""All metrics of a kind of task at once, each with its interval."""

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
    """One line of a table of metrics."""

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
    """Every metric of a kind of task ("classify", "multilabel" or "regress") by name.

    The areas and log loss need probs. Two classes add precision, recall and F1 of class 1. How many classes
    there are is said by `classes`, else by the columns of probs, else by the largest number that occurs.
    """
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, and it is {kind!r}.")
    draw = partial(bootstrap_all, n=n, level=level, seed=seed, groups=groups)
    if kind == "regress":
        return draw(REGRESS, labels, predictions)
    if kind == "multilabel":
        made = draw(MULTILABEL, labels, predictions)
    else:
        binary = _count_classes(labels, predictions, probs, classes) <= 2
        made = draw({**CLASSIFY, **BINARY} if binary else CLASSIFY, labels, predictions)
    if probs is None:
        return made
    check_probabilities(probs, whole=kind == "classify")
    return made | draw(PROBS, labels, probs)


def to_json(measures: Mapping[str, Interval]) -> dict[str, dict[str, float | None]]:
    """The shape that `evaluate --json` prints; what is not known is null."""
    return {
        name: {
            "value": _none_if_nan(interval.value),
            "low": _none_if_nan(interval.low),
            "high": _none_if_nan(interval.high),
        }
        for name, interval in measures.items()
    }


def metric_rows(measures: Mapping[str, Interval]) -> tuple[MetricRow, ...]:
    """The same as lines of a table."""
    return tuple(MetricRow(name=name, value=m.value, low=m.low, high=m.high) for name, m in measures.items())


def _count_classes(labels: ArrayLike, predictions: ArrayLike, probs: ArrayLike | None, classes: int | None) -> int:
    """How many classes there are; every label and prediction must be one of them."""
    if classes is None and probs is not None:
        sure = check_probabilities(probs, whole=True)
        classes = 2 if sure.ndim == 1 else sure.shape[1]
    true, said = check_class_ids(labels, "labels", n=classes), check_class_ids(predictions, "predictions", n=classes)
    check_same_rows(labels=true, predictions=said)
    return int(max(true.max(), said.max())) + 1 if classes is None else classes


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else float(np.float64(value))
