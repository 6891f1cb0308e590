"""Where scikit-learn is called: one fit at a given strength, for classes, labels or numbers."""

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
from clearhead.machine.threads import limit_blas, most_threads, passive_waiting
from clearhead.metrics.checks import Array

ClassWeight = Literal["none", "auto"]

UNSEEN = -1e4  # logit of a class without rows: its probability is 0 also at a high temperature
STEPS = 2000  # most problems take under a hundred
RIDGE = 1e-6  # tolerance of ridge regression, finer than scikit-learn's and still quick
LONG_CALLS = 1 << 24  # numbers of a matrix from which a product takes so long that waiting for a thread is little
MOST_WEIGHTS = 1 << 25  # L-BFGS keeps twenty vectors of so many numbers: 5 GB


@dataclass(frozen=True, kw_only=True, eq=False)
class Coefficients:
    """A linear model in the precision it was fitted in."""

    weight: Array  # (outputs, inputs)
    bias: Array  # (outputs,)
    converged: bool = True


@contextmanager
def limit_threads(size: int) -> Iterator[None]:
    """Fit in here: BLAS uses one thread, unless a matrix of `size` numbers keeps more of them busy for long.

    L-BFGS makes thousands of short products. On several threads each ends only when all have had their turn, and beside
    another busy process that takes fifty times as long as the product.
    """
    with suppress(ImportError), passive_waiting():
        import sklearn.linear_model  # noqa: F401  # loaded first, for it brings a BLAS of its own
    with limit_blas(1 if size < LONG_CALLS else most_threads()):
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
    seen = np.unique(targets)
    weight, bias = np.zeros((outputs, matrix.shape[1])), np.full(outputs, UNSEEN)
    if len(seen) == 1:
        bias[seen] = 0.0
        return Coefficients(weight=weight, bias=bias)
    if len(seen) > 2 and len(seen) * matrix.shape[1] > MOST_WEIGHTS:
        raise InputError(
            f"{len(seen):,} classes over {matrix.shape[1]:,} features are more than the {MOST_WEIGHTS:,} weights that "
            "are fitted; use fewer terms (max_terms)."
        )
    rows, offsets, converged = _fit_logistic(matrix, targets, strength, class_weight)
    if len(seen) == 2:  # one row for the second class against the first: sigmoid(z) = softmax(-z / 2, z / 2)
        rows, offsets = np.concatenate([-rows / 2, rows / 2]), np.concatenate([-offsets / 2, offsets / 2])
    weight[seen], bias[seen] = rows, offsets
    return Coefficients(weight=weight, bias=bias, converged=converged)


def _fit_labels(matrix: Any, targets: Array, strength: float, class_weight: ClassWeight) -> Coefficients:
    weight, bias = np.zeros((targets.shape[1], matrix.shape[1]), np.float32), log_odds(targets)
    converged = True
    for label in range(targets.shape[1]):
        column = targets[:, label]
        if column.any() and not column.all():  # else every row says the same, and the odds are all there is
            rows, offsets, well = _fit_logistic(matrix, column.astype(np.int64), strength, class_weight)
            weight[label], bias[label] = rows[0], offsets[0]
            converged = converged and well
    return Coefficients(weight=weight, bias=bias, converged=converged)


def _fit_number(matrix: Any, targets: Array, strength: float) -> Coefficients:
    spread = float(targets.std())
    mean = float(targets.mean())
    if spread <= 1e-12 * abs(mean):
        return Coefficients(weight=np.zeros((1, matrix.shape[1])), bias=np.array([mean]))
    # in units of their spread, so that the tolerance means the same for all numbers
    model, converged = _fit_estimator(
        "Ridge", matrix, (targets - mean) / spread, alpha=1 / strength, max_iter=STEPS, tol=RIDGE
    )
    weight = np.asarray(model.coef_, np.float64).reshape(1, -1) * spread
    bias = np.asarray(model.intercept_, np.float64).reshape(1) * spread + mean
    return Coefficients(weight=weight, bias=bias, converged=converged)


def _fit_logistic(matrix: Any, targets: Array, strength: float, class_weight: ClassWeight) -> tuple[Array, Array, bool]:
    balance = "balanced" if class_weight == "auto" else None
    model, converged = _fit_estimator(
        "LogisticRegression", matrix, targets, C=strength, class_weight=balance, max_iter=STEPS
    )
    return np.asarray(model.coef_, np.float64), np.asarray(model.intercept_, np.float64), converged


def _fit_estimator(name: str, matrix: Any, targets: Array, **settings: Any) -> tuple[Any, bool]:
    """A model of scikit-learn, and whether it converged: that is said in a field, not in a warning."""
    try:
        with passive_waiting():
            from sklearn import linear_model
            from sklearn.exceptions import ConvergenceWarning
    except ImportError as error:
        raise MissingExtraError("Fitting a linear model", "train") from error
    make: Callable[..., Any] = getattr(linear_model, name)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ConvergenceWarning)
        model = make(**settings).fit(matrix, targets)
    return model, not any(issubclass(warning.category, ConvergenceWarning) for warning in said)
