"""-log p(word) over a large vocabulary, with its gradient taken on the way: the table of logits is never kept.

logits = x W^T + b;  loss = logsumexp(logits) - logits[word];  d loss / d logits = softmax(logits) - [word]
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK_ROWS = 256  # words at a time: their logits are used while they are still in the cache


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, words: Tensor, share: float) -> Tensor:
        losses = x.new_empty(len(x))
        grad_x, grad_weight = torch.empty_like(x), torch.zeros_like(weight)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        for begin in range(0, len(x), BLOCK_ROWS):
            part, right = x[begin : begin + BLOCK_ROWS], words[begin : begin + BLOCK_ROWS]
            logits = part @ weight.T if bias is None else torch.addmm(bias, part, weight.T)
            total = logits.logsumexp(1)
            losses[begin : begin + BLOCK_ROWS] = total - logits.gather(1, right[:, None])[:, 0]
            errors = logits.sub_(total[:, None]).exp_()
            errors.scatter_add_(1, right[:, None], errors.new_full((len(right), 1), -1.0))
            errors.mul_(share)
            grad_x[begin : begin + BLOCK_ROWS] = errors @ weight
            grad_weight.addmm_(errors.T, part)
            if grad_bias is not None:
                grad_bias += errors.sum(0)
        ctx.save_for_backward(grad_x, grad_weight, *(() if grad_bias is None else (grad_bias,)))
        return losses.sum() * share

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_x, grad_weight, *bias = ctx.saved_tensors
        if float(grad) != 1.0:
            grad_x, grad_weight, bias = grad_x * grad, grad_weight * grad, [one * grad for one in bias]
        return grad_x, grad_weight, bias[0] if bias else None, None, None


def linear_cross_entropy(x: Tensor, weight: Tensor, bias: Tensor | None, words: Tensor, share: float) -> Tensor:
    """The sum of -log p(word) times `share`; x is what stands before the output matrix."""
    plain = x.dtype == weight.dtype == torch.float32 and not torch.is_autocast_enabled(x.device.type)
    if x.device.type == "cpu" and plain and torch.is_grad_enabled():
        loss: Tensor = _LinearCrossEntropy.apply(x, weight, bias, words, share)  # type: ignore[no-untyped-call]
        return loss
    return F.cross_entropy(F.linear(x, weight, bias).float(), words, reduction="sum") * share
