"""One Head for every task and family: pooling, dense layer, activation, norm, output; absent parts are Identity."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from clearhead.core.activations import ACTIVATIONS
from clearhead.core.layers import LayerNorm, Linear
from clearhead.core.layout import Layout
from clearhead.shape import HeadShape, PoolerShape


def pool_first(hidden: Tensor, layout: Layout) -> Tensor:
    """[CLS]: the first token of each text."""  # (batch, width)
    return layout.pad(hidden)[:, 0]


def pool_last(hidden: Tensor, layout: Layout) -> Tensor:
    """The last real token, the only one that attends to the whole text in a causal model."""
    states = layout.pad(hidden)
    return states[torch.arange(len(states), device=states.device), layout.last_positions()]


def pool_mean(hidden: Tensor, layout: Layout) -> Tensor:
    """The mean of the real tokens."""
    states = layout.pad(hidden)
    if layout.present is None:
        return states.mean(1)
    mask = layout.present[..., None].to(states.dtype)
    return (states * mask).sum(1) / mask.sum(1)


def keep_tokens(hidden: Tensor, layout: Layout) -> Tensor:
    """Every token, padded to a rectangle."""
    return layout.pad(hidden)


POOLINGS: dict[str, Callable[[Tensor, Layout], Tensor]] = {
    "first": pool_first,
    "last": pool_last,
    "mean": pool_mean,
    "each": keep_tokens,
}


class Pooler(nn.Module):
    """tanh(W h_cls + b), trained with next-sentence prediction."""

    def __init__(self, shape: PoolerShape, width: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(shape.dropout)
        self.dense = Linear(width, width)
        self.activation = ACTIVATIONS[shape.activation]

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        return self.activation(self.dense(self.dropout(pool_first(hidden, layout))))


class Head(nn.Module):
    """Maps the last hidden state to logits."""

    def __init__(self, shape: HeadShape, width: int) -> None:
        super().__init__()
        self.shape = shape
        self.pool = POOLINGS.get(shape.pooling)  # None: the pooler selects the token
        self.dropout_first = nn.Dropout(shape.dropout_first)
        self.dense = Linear(width, shape.dense, shape.dense_bias) if shape.dense else nn.Identity()
        self.activation = ACTIVATIONS[shape.activation or "linear"]
        inner = shape.dense or width
        self.norm = LayerNorm(inner, shape.eps, bias=shape.norm_bias) if shape.norm else nn.Identity()
        self.dropout = nn.Dropout(shape.dropout)
        self.out = Linear(inner, shape.outputs, shape.out_bias)

    def before_out(self, x: Tensor) -> Tensor:
        """Everything before the output matrix; pre-training runs it only at masked tokens."""
        x = self.activation(self.dense(self.dropout_first(x)))
        return self.dropout(self.norm(x)) * self.shape.scale

    def forward(self, hidden: Tensor, layout: Layout, pooled: Tensor | None) -> Tensor:
        x = pooled if self.pool is None else self.pool(hidden, layout)
        logits = self.out(self.before_out(x))  # type: ignore[arg-type]
        return logits.squeeze(-1) if self.shape.kind == "replaced" else logits
