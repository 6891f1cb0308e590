"""From hidden states to one vector per text, as operators: what `features` does in numpy, inside the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from clearhead.engine.graph import Graph
from clearhead.engine.layers import activate
from clearhead.shape import Pooling

Array = np.ndarray[Any, Any]


def pool_texts(g: Graph, modes: Sequence[str], tokens: str, mask: str, pooler: str) -> str:
    """Token vectors (batch, length, width) to text vectors; several ways are laid side by side."""
    real = g.add("Cast", mask, to=1)
    column = g.add("Unsqueeze", real, g.constant([-1]))  # (batch, length, 1)

    def total(x: str) -> str:
        return g.add("ReduceSum", x, g.constant([1]), keepdims=0)

    def share(weights: str, *, root: bool = False) -> str:
        count = g.add("Max", total(weights), g.scalar(1e-9))
        return g.add("Div", total(g.add("Mul", tokens, weights)), g.add("Sqrt", count) if root else count)

    def at(*, last: bool) -> str:
        place = g.add("ArgMax", real, axis=1, keepdims=1, select_last_index=int(last))
        return g.add("GatherND", tokens, place, batch_dims=1)

    def largest() -> str:
        present = g.add("Greater", column, g.scalar(0.0))
        return g.add("ReduceMax", g.add("Where", present, tokens, g.scalar(-np.inf)), g.constant([1]), keepdims=0)

    def numbered() -> str:
        end = g.add("Add", g.add("Squeeze", g.dim(mask, 1)), g.constant(1))
        place = g.add("Cast", g.add("Range", g.constant(1), end, g.constant(1)), to=1)
        return g.add("Mul", column, g.add("Unsqueeze", place, g.constant([-1])))

    ways: dict[str, Callable[[], str]] = {
        "cls": lambda: at(last=False),
        "lasttoken": lambda: at(last=True),
        "pooler": lambda: pooler,
        "mean": lambda: share(column),
        "mean_sqrt_len_tokens": lambda: share(column, root=True),
        "max": largest,
        "weightedmean": lambda: share(numbered()),
    }
    made = [ways[mode]() for mode in modes]
    return made[0] if len(made) == 1 else g.add("Concat", *made, axis=-1)


def add_dense_steps(g: Graph, x: str, pooling: Pooling, dense: Sequence[Mapping[str, Array]]) -> str:
    """Dense steps and unit length, as the folder says."""
    for place, (step, weights) in enumerate(zip(pooling.dense, dense, strict=True)):
        names = {key: g.weight(f"sentence.{place}.{key}", array) for key, array in weights.items()}
        x = g.add("FusedMatMul", x, names["weight"], transB=1)
        x = activate(g, step.activation, x, names["bias"] if step.bias else "")
    if pooling.normalize:
        length = g.add("ReduceL2", x, g.constant([-1]), keepdims=1)
        x = g.add("Div", x, g.add("Max", length, g.scalar(1e-12)))
    return x
