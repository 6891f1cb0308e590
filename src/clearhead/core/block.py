"""One block: self-attention, optional cross-attention and a feed-forward network, each with a residual connection."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.core.activations import ACTIVATIONS
from clearhead.core.attention import AttentionInputs, CrossAttention, SelfAttention
from clearhead.core.layers import Conv1d, LayerNorm, Linear
from clearhead.shape import Shape


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight: a layer norm without centering and bias."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def build_norm(shape: Shape, width: int) -> nn.Module:
    """Build the norm of a stack. It is computed per token, so that a text never depends on its batch."""
    if shape.norm == "rms":
        return RMSNorm(width, shape.eps)
    return LayerNorm(width, shape.eps, bias=shape.norm_bias)


class FeedForward(nn.Module):
    """W_2 act(W_1 x), with the same weights at every position."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.up = Linear(shape.width, shape.feed_forward_width, shape.feed_forward_bias)
        self.down = Linear(shape.feed_forward_width, shape.width, shape.feed_forward_bias)
        self.activation = ACTIVATIONS[shape.activation]
        self.dropout = nn.Dropout(shape.dropouts.feed_forward_hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.dropout(self.activation(self.up(x))))


class GatedFeedForward(FeedForward):
    """W_2 (act(W_g x) * W_1 x): the gate W_g x controls how much of each hidden unit passes."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.gate = Linear(shape.width, shape.feed_forward_width, shape.feed_forward_bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.dropout(self.activation(self.gate(x)) * self.up(x)))


FEED_FORWARDS = {"plain": FeedForward, "gated": GatedFeedForward}


class Residual(nn.Module):
    """norm(x + inner(x)), as in the original Transformer: the identity path lets x and its gradients pass unchanged.

    If only some tokens are queries, `inner` still receives all of x, and its output is added to `skip`, the states of
    the queries.
    """

    def __init__(self, shape: Shape, inner: nn.Module, dropout: float, *, has_norm: bool = True) -> None:
        super().__init__()
        self.inner = inner
        self.norm = build_norm(shape, shape.width) if has_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, *inputs: object, skip: Tensor | None = None) -> Tensor:
        return self.norm((x if skip is None else skip) + self.dropout(self.inner(x, *inputs)))


class PreNormResidual(Residual):
    """x + inner(norm(x)): pre-norm, which leaves the residual stream itself unnormalized."""

    def forward(self, x: Tensor, *inputs: object, skip: Tensor | None = None) -> Tensor:
        return (x if skip is None else skip) + self.dropout(self.inner(self.norm(x), *inputs))


RESIDUALS = {"after": Residual, "before": PreNormResidual}


class ConvolutionBranch(nn.Module):
    """DeBERTa's convolution over neighboring tokens, parallel to the first block: norm(y + act(conv(x)))."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        padding = (shape.conv_kernel - 1) // 2
        self.conv = Conv1d(shape.width, shape.width, shape.conv_kernel, padding=padding, groups=shape.conv_groups)
        self.norm = LayerNorm(shape.width, shape.eps)
        self.activation = ACTIVATIONS[shape.conv_activation]
        self.dropout = nn.Dropout(shape.dropouts.feed_forward_output)

    def forward(self, x: Tensor, y: Tensor, inputs: AttentionInputs) -> Tensor:
        tokens = inputs.query_layout.pad(x)
        if inputs.query_layout.present is not None:
            tokens = tokens * inputs.query_layout.present[..., None]  # padding must not change its neighbors
        # contiguous, so that dropout draws in token order
        convolved = inputs.query_layout.pack(self.conv(tokens.transpose(1, 2)).transpose(1, 2).contiguous())
        return self.norm(y + self.activation(self.dropout(convolved)))


class NoConvolution(nn.Module):
    """Null object of blocks without a convolution."""

    def forward(self, x: Tensor, y: Tensor, inputs: AttentionInputs) -> Tensor:
        return y


class NoCrossAttention(nn.Module):
    """Null object of blocks without cross-attention."""

    def forward(self, x: Tensor, inputs: AttentionInputs, layer: int) -> Tensor:
        return x


class Block(nn.Module):
    """Self-attention, cross-attention if the stack has an encoder, feed-forward network."""

    def __init__(self, shape: Shape, index: int) -> None:
        super().__init__()
        residual, dropouts = RESIDUALS[shape.norm_position], shape.dropouts
        has_norm = shape.first_norm or index > 0
        self.attend = residual(shape, SelfAttention(shape, index), dropouts.attention_output, has_norm=has_norm)
        self.cross = (
            residual(shape, CrossAttention(shape, index), dropouts.attention_output)
            if shape.cross
            else NoCrossAttention()
        )
        self.feed = residual(shape, FEED_FORWARDS[shape.feed_forward](shape), dropouts.feed_forward_output)
        self.convolve = ConvolutionBranch(shape) if shape.conv_kernel and index == 0 else NoConvolution()

    def forward(self, x: Tensor, inputs: AttentionInputs, layer: int) -> Tensor:
        y = self.attend(x, inputs, layer, skip=inputs.select_queries(x))
        y = self.cross(y, inputs, layer)
        y = self.feed(y)
        return self.convolve(x, y, inputs)
