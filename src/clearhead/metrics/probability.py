"""How good the scores are before anything is decided: areas under curves, log loss, Brier score.

`scores` is (rows,) for two classes, (rows, classes), or (rows, labels) beside labels of the same shape. Several classes
are each taken against the rest and averaged; a class without rows, or with all of them, has no area and is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import (
    Array,
    ArrayLike,
    check_binary,
    check_class_ids,
    check_finite,
    check_numbers,
    check_probabilities,
    check_same_rows,
    check_same_shape,
)
from clearhead.metrics.weights import WeightedMetric, build_group_sum, divide_or, metric, weighted_mean

Area: TypeAlias = Callable[[Array, Array], Array]  # weights of all rows and of positive rows, by falling score


@metric()
def roc_auc(labels: ArrayLike, scores: ArrayLike) -> WeightedMetric:
    """Chance that a row of the class scores above a row of another, ties counted half; NaN without both."""

    # U = sum over positives of (negatives below + half of the negatives beside) / (positives x negatives)
    def area(rows: Array, hits: Array) -> Array:
        others = rows - hits
        below = others.sum(0) - others.cumsum(0) + others / 2
        return divide_or((hits * below).sum(0), hits.sum(0) * others.sum(0), np.nan)

    return _average_area(labels, scores, area)


@metric()
def average_precision(labels: ArrayLike, scores: ArrayLike) -> WeightedMetric:
    """Area under the precision-recall curve, as steps; NaN when no row has the class."""

    # AP = sum over thresholds of (recall gained) x (precision there)
    def area(rows: Array, hits: Array) -> Array:
        return divide_or((hits * divide_or(hits.cumsum(0), rows.cumsum(0))).sum(0), hits.sum(0), np.nan)

    return _average_area(labels, scores, area)


@metric()
def log_loss(labels: ArrayLike, probs: ArrayLike) -> WeightedMetric:
    """Mean of -log of the probability given to the truth; by label where a text can have several."""
    kind = np.asarray(probs).dtype
    least = np.finfo(kind if kind.kind == "f" else np.float64).eps  # a zero costs what the precision can express
    true, sure = check_labels_and_probs(labels, probs)
    sure = np.clip(sure, least, 1 - least)
    if true.ndim == 2:
        return weighted_mean(-np.where(true, np.log(sure), np.log1p(-sure)).mean(1))
    return weighted_mean(-np.log(sure[np.arange(len(true)), true]))


@metric()
def brier_score(labels: ArrayLike, probs: ArrayLike) -> WeightedMetric:
    """Mean squared error of the probabilities: of the positive class for two classes, summed over more, by label."""
    true, sure = check_labels_and_probs(labels, probs)
    if true.ndim == 2:
        return weighted_mean(((sure - true) ** 2).mean(1))
    off = ((sure - np.eye(sure.shape[1])[true]) ** 2).sum(1)
    return weighted_mean(off / 2 if sure.shape[1] == 2 else off)


def check_labels_and_probs(labels: ArrayLike, probs: ArrayLike) -> tuple[Array, Array]:
    """Class numbers beside (rows, classes), or flags beside (rows, labels); two classes may come as (rows,)."""
    if check_numbers(labels, "labels").ndim == 2:
        true, sure = check_binary(labels, "labels"), check_probabilities(probs)
        check_same_shape(labels=true, probs=sure)
        return true, sure
    sure = check_probabilities(probs, whole=True)
    sure = np.stack([1 - sure, sure], 1) if sure.ndim == 1 else sure
    true = check_class_ids(labels, "labels", n=sure.shape[1])
    check_same_rows(labels=true, probs=sure)
    return true, sure


def _average_area(labels: ArrayLike, scores: ArrayLike, area: Area) -> WeightedMetric:
    """The mean area of all classes that have one."""
    columns = [_build_ranking(*column) for column in _binary_columns(labels, scores)]

    def values(weights: Array) -> Array:
        total = np.zeros(weights.shape[1])
        defined = np.zeros(weights.shape[1])
        for falling in columns:
            found = area(*falling(weights))
            there = ~np.isnan(found)
            total[there] += found[there]
            defined += there
        return divide_or(total, defined, np.nan)

    return WeightedMetric(rows=len(np.asarray(labels)), values=values)


def _binary_columns(labels: ArrayLike, scores: ArrayLike) -> list[tuple[Array, Array]]:
    """Pairs of scores and which rows are positive: one for two classes, one per class or label otherwise."""
    score = check_finite(scores, "scores")
    if score.ndim > 2:
        raise InputError(f"scores must be (rows,) or (rows, classes), and its shape is {score.shape}.")
    if check_numbers(labels, "labels").ndim == 2:
        true = check_binary(labels, "labels")
        check_same_shape(labels=true, scores=score)
        return [(score[:, place], true[:, place]) for place in range(true.shape[1])]
    classes = 2 if score.ndim == 1 else score.shape[1]
    number = check_class_ids(labels, "labels", n=classes)
    check_same_rows(labels=number, scores=score)
    if score.ndim == 1:
        return [(score, number == 1)]
    if classes == 2:
        return [(score[:, 1], number == 1)]
    return [(score[:, place], number == place) for place in range(classes)]


def _build_ranking(score: Array, positive: Array) -> Callable[[Array], tuple[Array, Array]]:
    """Weights of all rows and of positive rows by falling score, (steps, resamples) each.

    Rows with equal scores are one step; steps without any positive row between two that have one are joined.
    """
    order = np.argsort(-score, kind="stable")
    ranked, hit = score[order], positive[order]
    firsts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))  # where each tie begins
    having = np.add.reduceat(hit.astype(np.int64), firsts) > 0
    starts = firsts[having | np.concatenate([[True], having[:-1]])]
    step = np.searchsorted(starts, np.flatnonzero(hit), side="right") - 1
    positives, by_step = order[hit], build_group_sum(step, len(starts))
    return lambda weights: (
        np.add.reduceat(weights.take(order, 0), starts, axis=0),
        by_step(weights.take(positives, 0)),
    )
