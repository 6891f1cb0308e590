"""Fitting coefficients by scikit-learn at a given strength, for classes, labels or numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from clearhead.classic.majority import log_odds
from clearhead.data.labels import Kind
from clearhead.errors import InputError, MissingExtraError
from clearhead.machine.threads import get_max_threads, limit_blas, passive_waiting
from clearhead.metrics.checks import Array

ClassWeight = Literal["none", "auto"]

UNSEEN_CLASS_LOGIT = -1e4  # the probability of a class without rows is 0 even at a high temperature
MAX_ITERATIONS = 2000  # most problems take less than a hundred
RIDGE_TOLERANCE = 1e-6  # finer than the default of scikit-learn, and still fast
MIN_PARALLEL_SIZE = 1 << 24  # matrix size from which a product takes much longer than waiting for a thread
MAX_FITTED_WEIGHTS = 1 << 25  # L-BFGS keeps about twenty vectors of this size (5 GB)


@dataclass(frozen=True, kw_only=True, eq=False)
class Coefficients:
    """A linear model in the precision of its fit."""

    weight: Array  # (outputs, inputs)
    bias: Array  # (outputs,)
    converged: bool = True


@contextmanager
def limit_threads(size: int) -> Iterator[None]:
    """Limit BLAS to one thread during a fit, unless a matrix of `size` numbers is large enough for more.

    L-BFGS computes thousands of short products. With several threads, each product waits for the slowest thread; next
    to another busy process, this takes fifty times as long as the product itself.
    """
    with suppress(ImportError), passive_waiting():
        import sklearn.linear_model  # noqa: F401  # imported first, since it loads its own BLAS
    with limit_blas(1 if size < MIN_PARALLEL_SIZE else get_max_threads()):
        yield


def fit_coefficients(
    matrix: Any, targets: Array, *, kind: Kind, outputs: int, strength: float, class_weight: ClassWeight
) -> Coefficients:
    """Fit a checked matrix, dense or scipy sparse, to checked targets."""
    if kind == "number":
        return _fit_number(matrix, targets, strength)
    if kind == "multilabel":
        return _fit_labels(matrix, targets, strength, class_weight)
    return _fit_classes(matrix, targets, outputs, strength, class_weight)


def _fit_classes(matrix: Any, targets: Array, outputs: int, strength: float, class_weight: ClassWeight) -> Coefficients:
    present_classes = np.unique(targets)
    weight, bias = np.zeros((outputs, matrix.shape[1])), np.full(outputs, UNSEEN_CLASS_LOGIT)
    if len(present_classes) == 1:
        bias[present_classes] = 0.0
        return Coefficients(weight=weight, bias=bias)
    if len(present_classes) > 2 and len(present_classes) * matrix.shape[1] > MAX_FITTED_WEIGHTS:
        raise InputError(
            f"{len(present_classes):,} classes with {matrix.shape[1]:,} features exceed the limit of "
            f"{MAX_FITTED_WEIGHTS:,} weights; use fewer terms (max_terms)."
        )
    present_weights, present_biases, converged = _fit_logistic(matrix, targets, strength, class_weight)
    if len(present_classes) == 2:  # the binary model has one output z: sigmoid(z) = softmax(-z / 2, z / 2)
        present_weights = np.concatenate([-present_weights / 2, present_weights / 2])
        present_biases = np.concatenate([-present_biases / 2, present_biases / 2])
    weight[present_classes], bias[present_classes] = present_weights, present_biases
    return Coefficients(weight=weight, bias=bias, converged=converged)


def _fit_labels(matrix: Any, targets: Array, strength: float, class_weight: ClassWeight) -> Coefficients:
    weight, bias = np.zeros((targets.shape[1], matrix.shape[1]), np.float32), log_odds(targets)
    converged = True
    for label in range(targets.shape[1]):
        column = targets[:, label]
        if column.any() and not column.all():  # otherwise all rows agree, and the log odds suffice
            label_weight, label_bias, label_converged = _fit_logistic(
                matrix, column.astype(np.int64), strength, class_weight
            )
            weight[label], bias[label] = label_weight[0], label_bias[0]
            converged = converged and label_converged
    return Coefficients(weight=weight, bias=bias, converged=converged)


def _fit_number(matrix: Any, targets: Array, strength: float) -> Coefficients:
    std = float(targets.std())
    mean = float(targets.mean())
    if std <= 1e-12 * abs(mean):
        return Coefficients(weight=np.zeros((1, matrix.shape[1])), bias=np.array([mean]))
    # standardized, so that the tolerance is independent of their scale
    model, converged = _fit_estimator(
        "Ridge", matrix, (targets - mean) / std, alpha=1 / strength, max_iter=MAX_ITERATIONS, tol=RIDGE_TOLERANCE
    )
    weight = np.asarray(model.coef_, np.float64).reshape(1, -1) * std
    bias = np.asarray(model.intercept_, np.float64).reshape(1) * std + mean
    return Coefficients(weight=weight, bias=bias, converged=converged)


def _fit_logistic(matrix: Any, targets: Array, strength: float, class_weight: ClassWeight) -> tuple[Array, Array, bool]:
    sklearn_class_weight = "balanced" if class_weight == "auto" else None
    model, converged = _fit_estimator(
        "LogisticRegression", matrix, targets, C=strength, class_weight=sklearn_class_weight, max_iter=MAX_ITERATIONS
    )
    return np.asarray(model.coef_, np.float64), np.asarray(model.intercept_, np.float64), converged


def _fit_estimator(name: str, matrix: Any, targets: Array, **settings: Any) -> tuple[Any, bool]:
    """Fit a scikit-learn estimator, and return it with a flag for convergence instead of a warning."""
    try:
        with passive_waiting():
            from sklearn import linear_model
            from sklearn.exceptions import ConvergenceWarning
    except ImportError as error:
        raise MissingExtraError("Fitting a linear model", "train") from error
    build_estimator: Callable[..., Any] = getattr(linear_model, name)
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always", ConvergenceWarning)
        model = build_estimator(**settings).fit(matrix, targets)
    return model, not any(issubclass(warning.category, ConvergenceWarning) for warning in caught_warnings)
