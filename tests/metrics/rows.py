"""Random rows for metrics, with ties, single classes, single rows and missing classes, and the references, silenced."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from hypothesis import strategies as st

Array = np.ndarray[Any, Any]

# scipy brings no types
stats: Any = import_module("scipy.stats")
special: Any = import_module("scipy.special")
optimize: Any = import_module("scipy.optimize")


@st.composite
def classes(draw: st.DrawFn, most: int = 5, columns: int = 2, least_rows: int = 1) -> tuple[Array, ...]:
    """Columns of class numbers; often of one class only, or with classes missing."""
    rows = draw(st.integers(least_rows, 40))
    numbers = draw(st.lists(st.integers(0, most - 1), min_size=1, max_size=most, unique=True))
    column = st.lists(st.sampled_from(numbers), min_size=rows, max_size=rows)
    return tuple(np.array(draw(column)) for _ in range(columns))


@st.composite
def tables(draw: st.DrawFn) -> tuple[Array, Array]:
    """Two (rows, labels) of 0 and 1; often sparse."""
    rows, labels = draw(st.integers(1, 25)), draw(st.integers(2, 4))
    share = draw(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    one, other = (rng.random((rows, labels)) < share for _ in range(2))
    return one.astype(int), other.astype(int)


@st.composite
def scored(draw: st.DrawFn, most: int = 5, least: int = 2) -> tuple[Array, Array]:
    """Class numbers and probabilities (rows, classes), with ties when few digits are kept."""
    rows, count = draw(st.integers(1, 40)), draw(st.integers(least, most))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    logits = rng.normal(size=(rows, count)).round(draw(st.sampled_from([0, 1, 8])))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return rng.integers(0, draw(st.integers(1, count)), rows), probs


@st.composite
def reals(draw: st.DrawFn) -> tuple[Array, Array]:
    """Two columns of numbers, with ties when they are whole."""
    rows = draw(st.integers(2, 40))
    number: st.SearchStrategy[float] = draw(
        st.sampled_from([st.integers(-3, 3).map(float), st.integers(0, 1).map(float), st.floats(-1e3, 1e3, width=32)])
    )
    return tuple(np.array(draw(st.lists(number, min_size=rows, max_size=rows))) for _ in range(2))  # type: ignore[return-value]


def silent(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference without its warnings: what it warns of, we return without a word."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)

    return called
