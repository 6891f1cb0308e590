"""Heads as ONNX operators: pooling, dense layer, activation, norm, output."""

from __future__ import annotations

from clearhead.engine.layers import GraphBuilder, activate, add_norm
from clearhead.shape import HeadShape, PoolerShape


def pool_tokens(builder: GraphBuilder, x: str, pooling: str, present: str) -> str:
    """The token, the mean or every token that a head reads; `present` is (batch, length), empty where all are mask."""
    g = builder.g
    if pooling == "each":
        return x
    if pooling == "first":
        return g.add("Gather", x, g.constant(0), axis=1)
    if not present:
        if pooling == "last":
            return g.add("Gather", x, g.constant(-1), axis=1)
        length = g.dim(x, 1)
        ones = g.add("Expand", g.scalar(1.0), g.add("Concat", g.constant([1, 1]), length, axis=0))
        return _mean_of_tokens(builder, x, ones, g.add("Cast", length, to=1))
    mask = g.add("Cast", present, to=1)
    if pooling == "last":
        length = g.add("Squeeze", g.dim(present, 1))
        indices = g.add("Range", g.constant(0), length, g.constant(1))
        last_index = g.add("ReduceMax", g.add("Mul", g.add("Cast", indices, to=1), mask), g.constant([1]), keepdims=1)
        return g.add("GatherND", x, g.add("Cast", last_index, to=7), batch_dims=1)
    row = g.add("Unsqueeze", mask, g.constant([1]))
    return _mean_of_tokens(builder, x, row, g.add("ReduceSum", mask, g.constant([1]), keepdims=1))


def _mean_of_tokens(builder: GraphBuilder, x: str, row: str, count: str) -> str:
    """Sum tokens by a matrix product: unlike with a Reduce operator, the bits do not depend on the batch."""
    g = builder.g
    total = g.add("Squeeze", g.add("MatMul", row, x), g.constant([1]))
    return g.add("Div", total, count)


def add_pooler(builder: GraphBuilder, shape: PoolerShape, x: str) -> str:
    """tanh(W h_cls + b)."""
    first = pool_tokens(builder, x, "first", "")
    (projected,) = builder.product(first, "pooler.dense")
    return activate(builder.g, shape.activation, projected, builder.bias("pooler.dense"))


def add_head(
    builder: GraphBuilder, shape: HeadShape, x: str, pooled: str, present: str, name: str, token_table: str
) -> str:
    """Map the last hidden state to logits."""
    g = builder.g
    x = pooled if shape.pooling == "pooled" else pool_tokens(builder, x, shape.pooling, present)
    if shape.dense:
        (x,) = builder.product(x, f"{name}.dense")
        x = activate(g, shape.activation or "linear", x, builder.bias(f"{name}.dense"))
    elif shape.activation:
        x = activate(g, shape.activation, x)
    if shape.norm:
        x = add_norm(builder, x, f"{name}.norm", eps=shape.eps)
    if shape.scale != 1.0:
        x = g.add("Mul", x, g.scalar(shape.scale))
    (logits,) = builder.product(x, token_table.removesuffix(".weight") if shape.tied else f"{name}.out")
    bias = builder.bias(f"{name}.out")
    logits = g.add("Add", logits, bias) if bias else logits
    return g.add("Squeeze", logits, g.constant([-1])) if shape.kind == "replaced" else logits
