"""Heads as operators: pick, dense, activation, norm, out."""

from __future__ import annotations

from clearhead.engine.layers import GraphBuilder, activate, add_norm
from clearhead.shape import HeadShape, PoolerShape


def pool_tokens(parts: GraphBuilder, x: str, pick: str, present: str) -> str:
    """The token, the mean or every token that a head reads; `present` is (batch, length), empty where all are real."""
    g = parts.g
    if pick == "each":
        return x
    if pick == "first":
        return g.add("Gather", x, g.constant(0), axis=1)
    if not present:
        if pick == "last":
            return g.add("Gather", x, g.constant(-1), axis=1)
        length = g.dim(x, 1)
        ones = g.add("Expand", g.scalar(1.0), g.add("Concat", g.constant([1, 1]), length, axis=0))
        return _mean_of_tokens(parts, x, ones, g.add("Cast", length, to=1))
    real = g.add("Cast", present, to=1)
    if pick == "last":
        length = g.add("Squeeze", g.dim(present, 1))
        place = g.add("Range", g.constant(0), length, g.constant(1))
        furthest = g.add("ReduceMax", g.add("Mul", g.add("Cast", place, to=1), real), g.constant([1]), keepdims=1)
        return g.add("GatherND", x, g.add("Cast", furthest, to=7), batch_dims=1)
    row = g.add("Unsqueeze", real, g.constant([1]))
    return _mean_of_tokens(parts, x, row, g.add("ReduceSum", real, g.constant([1]), keepdims=1))


def _mean_of_tokens(parts: GraphBuilder, x: str, row: str, count: str) -> str:
    """(batch, width): tokens summed by a product, whose bits do not depend on the batch, as those of a Reduce do."""
    g = parts.g
    total = g.add("Squeeze", g.add("MatMul", row, x), g.constant([1]))
    return g.add("Div", total, count)


def add_pooler(parts: GraphBuilder, shape: PoolerShape, x: str) -> str:
    """tanh(W h_cls + b)."""
    first = pool_tokens(parts, x, "first", "")
    (made,) = parts.product(first, "pooler.dense")
    return activate(parts.g, shape.activation, made, parts.bias("pooler.dense"))


def add_head(parts: GraphBuilder, shape: HeadShape, x: str, pooled: str, present: str, name: str, words: str) -> str:
    """From the last hidden state to logits."""
    g = parts.g
    x = pooled if shape.pooling == "pooled" else pool_tokens(parts, x, shape.pooling, present)
    if shape.dense:
        (x,) = parts.product(x, f"{name}.dense")
        x = activate(g, shape.activation or "linear", x, parts.bias(f"{name}.dense"))
    elif shape.activation:
        x = activate(g, shape.activation, x)
    if shape.norm:
        x = add_norm(parts, x, f"{name}.norm", eps=shape.eps)
    if shape.scale != 1.0:
        x = g.add("Mul", x, g.scalar(shape.scale))
    (logits,) = parts.product(x, words.removesuffix(".weight") if shape.tied else f"{name}.out")
    bias = parts.bias(f"{name}.out")
    logits = g.add("Add", logits, bias) if bias else logits
    return g.add("Squeeze", logits, g.constant([-1])) if shape.kind == "replaced" else logits
