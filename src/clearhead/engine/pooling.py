"""Pooling as ONNX operators: the sentence embedding of `model.layers`, inside the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from clearhead.engine.graph import Graph
from clearhead.engine.layers import activate
from clearhead.shape import Pooling

Array = np.ndarray[Any, Any]


def pool_texts(g: Graph, modes: Sequence[str], tokens: str, mask: str, pooler: str) -> str:
    """Pool token vectors (batch, length, width) to text vectors; several modes are concatenated."""
    mask_float = g.add("Cast", mask, to=1)
    column = g.add("Unsqueeze", mask_float, g.constant([-1]))  # (batch, length, 1)

    def sum_tokens(x: str) -> str:
        return g.add("ReduceSum", x, g.constant([1]), keepdims=0)

    def weighted_mean(weights: str, *, use_sqrt: bool = False) -> str:
        count = g.add("Max", sum_tokens(weights), g.scalar(1e-9))
        return g.add("Div", sum_tokens(g.add("Mul", tokens, weights)), g.add("Sqrt", count) if use_sqrt else count)

    def token_at(*, last: bool) -> str:
        index = g.add("ArgMax", mask_float, axis=1, keepdims=1, select_last_index=int(last))
        return g.add("GatherND", tokens, index, batch_dims=1)

    def maximum() -> str:
        present = g.add("Greater", column, g.scalar(0.0))
        return g.add("ReduceMax", g.add("Where", present, tokens, g.scalar(-np.inf)), g.constant([1]), keepdims=0)

    def position_weights() -> str:
        end = g.add("Add", g.add("Squeeze", g.dim(mask, 1)), g.constant(1))
        positions = g.add("Cast", g.add("Range", g.constant(1), end, g.constant(1)), to=1)
        return g.add("Mul", column, g.add("Unsqueeze", positions, g.constant([-1])))

    pool_by_mode: dict[str, Callable[[], str]] = {
        "cls": lambda: token_at(last=False),
        "lasttoken": lambda: token_at(last=True),
        "pooler": lambda: pooler,
        "mean": lambda: weighted_mean(column),
        "mean_sqrt_len_tokens": lambda: weighted_mean(column, use_sqrt=True),
        "max": maximum,
        "weightedmean": lambda: weighted_mean(position_weights()),
    }
    vectors = [pool_by_mode[mode]() for mode in modes]
    return vectors[0] if len(vectors) == 1 else g.add("Concat", *vectors, axis=-1)


def add_dense_steps(g: Graph, x: str, pooling: Pooling, dense: Sequence[Mapping[str, Array]]) -> str:
    """Add the dense layers and the normalization that the pooling defines."""
    for index, (step, weights) in enumerate(zip(pooling.dense, dense, strict=True)):
        names = {key: g.weight(f"sentence.{index}.{key}", array) for key, array in weights.items()}
        x = g.add("FusedMatMul", x, names["weight"], transB=1)
        x = activate(g, step.activation, x, names["bias"] if step.bias else "")
    if pooling.normalize:
        length = g.add("ReduceL2", x, g.constant([-1]), keepdims=1)
        x = g.add("Div", x, g.add("Max", length, g.scalar(1e-12)))
    return x
