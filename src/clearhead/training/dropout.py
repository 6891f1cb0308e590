"""Dropout by random bits, several times as fast on a CPU as torch's own.

The core keeps torch's own dropout, whose draws are those of `transformers` under the same seed; the loop exchanges it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clearhead.core.attention import Attention, Where, fused

RESOLUTION = 1 << 16  # a rate is rounded to this many parts of one


def dropout_mask(x: Tensor, rate: float) -> Tensor:
    """What to multiply x by: 0 where a number is dropped, and what keeps its mean elsewhere."""
    # torch draws a float for each number; sixteen bits decide as well, and one draw of sixty-four serves four numbers
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)
    dropped = round(rate * RESOLUTION)
    keep = bits[: x.numel()].view(x.shape) >= dropped - RESOLUTION // 2
    return keep.to(x.dtype).mul_(RESOLUTION / (RESOLUTION - dropped))


class FastDropout(nn.Dropout):
    """torch's dropout with another way to draw."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p in (0, 1):
            return super().forward(x)
        return x * dropout_mask(x, self.p)


def dropout_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, dropout: float, where: Where
) -> Tensor:
    """Attention whose probabilities are dropped; torch's fused kernel has a fast path only without dropout."""
    if dropout in (0, 1):
        return fused(q, k, v, bias, scale, dropout, where)
    scores = (q * scale) @ k.transpose(-1, -2)
    probs = (scores if bias is None else scores + bias).softmax(-1)
    return (probs * dropout_mask(probs, dropout)) @ v


def use_fast_dropout(network: nn.Module) -> None:
    """Exchange every dropout of a network."""
    for module in network.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, FastDropout(child.p).train(child.training))


def set_dropout(network: nn.Module, rate: float | None) -> None:
    """Another rate wherever the network drops; None: as it is."""
    if rate is None:
        return
    for module in network.modules():
        if isinstance(module, nn.Dropout) and module.p:
            module.p = rate
        elif isinstance(module, Attention) and module.drop:
            module.drop = rate
