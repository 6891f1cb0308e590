"""Metrics of scores and probabilities: ROC AUC, average precision, log loss and Brier score.

`scores` is (rows,) for two classes, (rows, classes), or (rows, labels) with labels of the same shape. With more than
two classes, areas are averaged one-vs-rest; classes that have no rows, or all of them, are excluded.
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

Area: TypeAlias = Callable[[Array, Array], Array]  # weights of all rows and of positive rows, by descending score


@metric()
def roc_auc(labels: ArrayLike, scores: ArrayLike) -> WeightedMetric:
    """Probability that a positive row scores above a negative row, ties counting half; NaN unless both exist."""

    # AUC = sum over positives of (negatives below + half of the tied negatives) / (positives x negatives)
    def area(rows: Array, hits: Array) -> Array:
        negatives = rows - hits
        negatives_below = negatives.sum(0) - negatives.cumsum(0) + negatives / 2
        return divide_or((hits * negatives_below).sum(0), hits.sum(0) * negatives.sum(0), np.nan)

    return _average_area(labels, scores, area)


@metric()
def average_precision(labels: ArrayLike, scores: ArrayLike) -> WeightedMetric:
    """Area under the stepwise precision-recall curve; NaN if no row is positive."""

    # AP = sum over thresholds of (increase in recall) x (precision)
    def area(rows: Array, hits: Array) -> Array:
        return divide_or((hits * divide_or(hits.cumsum(0), rows.cumsum(0))).sum(0), hits.sum(0), np.nan)

    return _average_area(labels, scores, area)


@metric()
def log_loss(labels: ArrayLike, probs: ArrayLike) -> WeightedMetric:
    """Mean negative log-likelihood of the labels; of each label for multi-label data."""
    dtype = np.asarray(probs).dtype
    epsilon = np.finfo(
        dtype if dtype.kind == "f" else np.float64
    ).eps  # limits the loss of a zero probability to what the dtype can express
    true, checked_probs = check_labels_and_probs(labels, probs)
    checked_probs = np.clip(checked_probs, epsilon, 1 - epsilon)
    if true.ndim == 2:
        return weighted_mean(-np.where(true, np.log(checked_probs), np.log1p(-checked_probs)).mean(1))
    return weighted_mean(-np.log(checked_probs[np.arange(len(true)), true]))


@metric()
def brier_score(labels: ArrayLike, probs: ArrayLike) -> WeightedMetric:
    """Mean squared error of the probabilities: of class 1 for two classes, summed over more classes, or per label."""
    true, checked_probs = check_labels_and_probs(labels, probs)
    if true.ndim == 2:
        return weighted_mean(((checked_probs - true) ** 2).mean(1))
    squared_errors = ((checked_probs - np.eye(checked_probs.shape[1])[true]) ** 2).sum(1)
    return weighted_mean(squared_errors / 2 if checked_probs.shape[1] == 2 else squared_errors)


def check_labels_and_probs(labels: ArrayLike, probs: ArrayLike) -> tuple[Array, Array]:
    """Check class ids with (rows, classes), or flags with (rows, labels); binary probs may be (rows,)."""
    if check_numbers(labels, "labels").ndim == 2:
        true, checked_probs = check_binary(labels, "labels"), check_probabilities(probs)
        check_same_shape(labels=true, probs=checked_probs)
        return true, checked_probs
    checked_probs = check_probabilities(probs, sum_to_one=True)
    checked_probs = np.stack([1 - checked_probs, checked_probs], 1) if checked_probs.ndim == 1 else checked_probs
    true = check_class_ids(labels, "labels", n_classes=checked_probs.shape[1])
    check_same_rows(labels=true, probs=checked_probs)
    return true, checked_probs


def _average_area(labels: ArrayLike, scores: ArrayLike, area: Area) -> WeightedMetric:
    """Average the areas of all classes for which it is defined."""
    rankings = [_build_ranking(*scores_and_positives) for scores_and_positives in _split_into_binary(labels, scores)]

    def values(weights: Array) -> Array:
        total = np.zeros(weights.shape[1])
        n_defined = np.zeros(weights.shape[1])
        for rank_weights in rankings:
            areas = area(*rank_weights(weights))
            is_defined = ~np.isnan(areas)
            total[is_defined] += areas[is_defined]
            n_defined += is_defined
        return divide_or(total, n_defined, np.nan)

    return WeightedMetric(rows=len(np.asarray(labels)), values=values)


def _split_into_binary(labels: ArrayLike, scores: ArrayLike) -> list[tuple[Array, Array]]:
    """Pairs of scores and positive flags: one pair for two classes, otherwise one per class or label."""
    checked_scores = check_finite(scores, "scores")
    if checked_scores.ndim > 2:
        raise InputError(f"scores must have shape (rows,) or (rows, classes), got {checked_scores.shape}.")
    if check_numbers(labels, "labels").ndim == 2:
        true = check_binary(labels, "labels")
        check_same_shape(labels=true, scores=checked_scores)
        return [(checked_scores[:, column], true[:, column]) for column in range(true.shape[1])]
    n_classes = 2 if checked_scores.ndim == 1 else checked_scores.shape[1]
    class_ids = check_class_ids(labels, "labels", n_classes=n_classes)
    check_same_rows(labels=class_ids, scores=checked_scores)
    if checked_scores.ndim == 1:
        return [(checked_scores, class_ids == 1)]
    if n_classes == 2:
        return [(checked_scores[:, 1], class_ids == 1)]
    return [(checked_scores[:, column], class_ids == column) for column in range(n_classes)]


def _build_ranking(score: Array, positive: Array) -> Callable[[Array], tuple[Array, Array]]:
    """Build a function from row weights to those of all and of positive rows by descending score, (steps, resamples).

    Rows with equal scores are one step; consecutive steps without positive rows are merged.
    """
    order = np.argsort(-score, kind="stable")
    ranked, is_hit = score[order], positive[order]
    tie_starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))  # where each tie begins
    has_positive = np.add.reduceat(is_hit.astype(np.int64), tie_starts) > 0
    starts = tie_starts[has_positive | np.concatenate([[True], has_positive[:-1]])]
    step_of_positive = np.searchsorted(starts, np.flatnonzero(is_hit), side="right") - 1
    positives, sum_by_step = order[is_hit], build_group_sum(step_of_positive, len(starts))
    return lambda weights: (
        np.add.reduceat(weights.take(order, 0), starts, axis=0),
        sum_by_step(weights.take(positives, 0)),
    )
