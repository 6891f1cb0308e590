"""Dropout from random bits, several times as fast on a CPU as torch's own.

The core uses torch's dropout, which draws the same masks as `transformers` under the same seed; the training loop
replaces it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clearhead.core.attention import Attention, AttentionId, fused_attention

RESOLUTION = 1 << 16  # rates are rounded to multiples of 1 / RESOLUTION


def make_dropout_mask(x: Tensor, rate: float) -> Tensor:
    """The factor of each element of x: 0 where it is dropped, 1 / (1 - rate) elsewhere."""
    # torch draws a float per element; 16 random bits are enough, so that one 64-bit draw serves four elements
    random_bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)
    threshold = round(rate * RESOLUTION)
    keep = random_bits[: x.numel()].view(x.shape) >= threshold - RESOLUTION // 2
    return keep.to(x.dtype).mul_(RESOLUTION / (RESOLUTION - threshold))


class FastDropout(nn.Dropout):
    """torch's dropout module with a faster mask."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p in (0, 1):
            return super().forward(x)
        return x * make_dropout_mask(x, self.p)


def dropout_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, dropout: float, attention_id: AttentionId
) -> Tensor:
    """Attention with dropout on its probabilities; torch's fused kernel is fast only without dropout."""
    if dropout in (0, 1):
        return fused_attention(q, k, v, bias, scale, dropout, attention_id)
    scores = (q * scale) @ k.transpose(-1, -2)
    probs = (scores if bias is None else scores + bias).softmax(-1)
    return (probs * make_dropout_mask(probs, dropout)) @ v


def use_fast_dropout(network: nn.Module) -> None:
    """Replace every dropout module of a network."""
    for module in network.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, FastDropout(child.p).train(child.training))


def set_dropout(network: nn.Module, rate: float | None) -> None:
    """Set the rate of every active dropout of a network; None leaves it unchanged."""
    if rate is None:
        return
    for module in network.modules():
        if isinstance(module, nn.Dropout) and module.p:
            module.p = rate
        elif isinstance(module, Attention) and module.dropout_rate:
            module.dropout_rate = rate
