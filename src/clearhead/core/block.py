"""One block: attention, perhaps attention to the encoder, and a feed-forward part, each with a way around it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.core.activations import ACTIVATIONS
from clearhead.core.attention import AttentionInputs, CrossAttention, SelfAttention
from clearhead.core.layers import Conv1d, LayerNorm, Linear
from clearhead.shape import Shape


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight: a layer norm without mean and bias."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def build_norm(shape: Shape, width: int) -> nn.Module:
    """Per token, not per batch: a sentence's numbers never depend on its neighbours."""
    if shape.norm == "rms":
        return RMSNorm(width, shape.eps)
    return LayerNorm(width, shape.eps, bias=shape.norm_bias)


class FeedForward(nn.Module):
    """W_2 act(W_1 x): the same weights at every position."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.up = Linear(shape.width, shape.feed_forward_width, shape.feed_forward_bias)
        self.down = Linear(shape.feed_forward_width, shape.width, shape.feed_forward_bias)
        self.activation = ACTIVATIONS[shape.activation]
        self.dropout = nn.Dropout(shape.dropouts.feed_forward_hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.dropout(self.activation(self.up(x))))


class GatedFeedForward(FeedForward):
    """W_2 (act(W_g x) * W_1 x): a second matrix decides what passes."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.gate = Linear(shape.width, shape.feed_forward_width, shape.feed_forward_bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.dropout(self.activation(self.gate(x)) * self.up(x)))


FEED_FORWARDS = {"plain": FeedForward, "gated": GatedFeedForward}


class Residual(nn.Module):
    """norm(x + inner(x)), as in 2017: if inner is useless, x itself gets through.

    Where only some of the tokens ask, inner still sees all of x, and what it says is added `onto` those that ask.
    """

    def __init__(self, shape: Shape, inner: nn.Module, dropout: float, *, normed: bool = True) -> None:
        super().__init__()
        self.inner = inner
        self.norm = build_norm(shape, shape.width) if normed else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, *given: object, onto: Tensor | None = None) -> Tensor:
        return self.norm((x if onto is None else onto) + self.dropout(self.inner(x, *given)))


class PreNormResidual(Residual):
    """x + inner(norm(x)): the norm stands before, and x is never changed on its way up."""

    def forward(self, x: Tensor, *given: object, onto: Tensor | None = None) -> Tensor:
        return (x if onto is None else onto) + self.dropout(self.inner(self.norm(x), *given))


RESIDUALS = {"after": Residual, "before": PreNormResidual}


class ConvolutionBranch(nn.Module):
    """DeBERTa's convolution over neighbouring words, beside the first block: norm(y + act(conv(x)))."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        padding = (shape.conv_kernel - 1) // 2
        self.conv = Conv1d(shape.width, shape.width, shape.conv_kernel, padding=padding, groups=shape.conv_groups)
        self.norm = LayerNorm(shape.width, shape.eps)
        self.activation = ACTIVATIONS[shape.conv_activation]
        self.dropout = nn.Dropout(shape.dropouts.feed_forward_output)

    def forward(self, x: Tensor, y: Tensor, given: AttentionInputs) -> Tensor:
        words = given.layout.pad(x)
        if given.layout.present is not None:
            words = words * given.layout.present[..., None]  # padding is silence to its neighbours
        # contiguous, so that dropout draws in the order of the words
        beside = given.layout.gather(self.conv(words.transpose(1, 2)).transpose(1, 2).contiguous())
        return self.norm(y + self.activation(self.dropout(beside)))


class NoConvolution(nn.Module):
    """What every other block has."""

    def forward(self, x: Tensor, y: Tensor, given: AttentionInputs) -> Tensor:
        return y


class NoCrossAttention(nn.Module):
    """What a block without an encoder to look at has."""

    def forward(self, x: Tensor, given: AttentionInputs, layer: int) -> Tensor:
        return x


class Block(nn.Module):
    """Self-attention, cross-attention where there is an encoder, feed-forward."""

    def __init__(self, shape: Shape, index: int) -> None:
        super().__init__()
        residual, drop = RESIDUALS[shape.norm_position], shape.dropouts
        normed = shape.first_norm or index > 0
        self.attend = residual(shape, SelfAttention(shape, index), drop.attention_output, normed=normed)
        self.cross = (
            residual(shape, CrossAttention(shape, index), drop.attention_output) if shape.cross else NoCrossAttention()
        )
        self.feed = residual(shape, FEED_FORWARDS[shape.feed_forward](shape), drop.feed_forward_output)
        self.convolve = ConvolutionBranch(shape) if shape.conv_kernel and index == 0 else NoConvolution()

    def forward(self, x: Tensor, given: AttentionInputs, layer: int) -> Tensor:
        y = self.attend(x, given, layer, onto=given.select_queries(x))
        y = self.cross(y, given, layer)
        y = self.feed(y)
        return self.convolve(x, y, given)
