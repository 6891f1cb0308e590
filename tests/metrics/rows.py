"""Random rows for metrics, with ties, single classes, single rows and missing classes; references without warnings."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from hypothesis import strategies as st

Array = np.ndarray[Any, Any]

# scipy has no type stubs
stats: Any = import_module("scipy.stats")
special: Any = import_module("scipy.special")
optimize: Any = import_module("scipy.optimize")


@st.composite
def class_columns(draw: st.DrawFn, max_classes: int = 5, n_columns: int = 2, min_rows: int = 1) -> tuple[Array, ...]:
    """Columns of class ids; often of a single class, or with missing classes."""
    n_rows = draw(st.integers(min_rows, 40))
    class_ids = draw(st.lists(st.integers(0, max_classes - 1), min_size=1, max_size=max_classes, unique=True))
    class_column = st.lists(st.sampled_from(class_ids), min_size=n_rows, max_size=n_rows)
    return tuple(np.array(draw(class_column)) for _ in range(n_columns))


@st.composite
def label_tables(draw: st.DrawFn) -> tuple[Array, Array]:
    """Two (rows, labels) of 0 and 1; often sparse."""
    n_rows, n_labels = draw(st.integers(1, 25)), draw(st.integers(2, 4))
    density = draw(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    labels_table, predictions_table = (rng.random((n_rows, n_labels)) < density for _ in range(2))
    return labels_table.astype(int), predictions_table.astype(int)


@st.composite
def labels_and_probs(draw: st.DrawFn, max_classes: int = 5, min_classes: int = 2) -> tuple[Array, Array]:
    """Class ids and probabilities (rows, classes), with ties when logits are rounded."""
    n_rows, n_classes = draw(st.integers(1, 40)), draw(st.integers(min_classes, max_classes))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    logits = rng.normal(size=(n_rows, n_classes)).round(draw(st.sampled_from([0, 1, 8])))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return rng.integers(0, draw(st.integers(1, n_classes)), n_rows), probs


@st.composite
def real_pairs(draw: st.DrawFn) -> tuple[Array, Array]:
    """Two columns of numbers, with ties when they are integers."""
    n_rows = draw(st.integers(2, 40))
    numbers: st.SearchStrategy[float] = draw(
        st.sampled_from([st.integers(-3, 3).map(float), st.integers(0, 1).map(float), st.floats(-1e3, 1e3, width=32)])
    )
    return tuple(np.array(draw(st.lists(numbers, min_size=n_rows, max_size=n_rows))) for _ in range(2))  # type: ignore[return-value]


def silent(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a reference so that it does not warn."""

    @functools.wraps(function)
    def call_silently(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)

    return call_silently
