"""Cross-entropy over a large vocabulary that computes its gradient in the forward pass, without storing all logits.

logits = x W^T + b;  loss = logsumexp(logits) - logits[target];  d loss / d logits = softmax(logits) - onehot(target)
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK_ROWS = 256  # targets per block, so that their logits stay in the cache


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, scale: float) -> Tensor:
        losses = x.new_empty(len(x))
        grad_x, grad_weight = torch.empty_like(x), torch.zeros_like(weight)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        for start in range(0, len(x), BLOCK_ROWS):
            block, block_targets = x[start : start + BLOCK_ROWS], targets[start : start + BLOCK_ROWS]
            logits = block @ weight.T if bias is None else torch.addmm(bias, block, weight.T)
            log_normalizers = logits.logsumexp(1)
            losses[start : start + BLOCK_ROWS] = log_normalizers - logits.gather(1, block_targets[:, None])[:, 0]
            grad_logits = logits.sub_(log_normalizers[:, None]).exp_()
            grad_logits.scatter_add_(1, block_targets[:, None], grad_logits.new_full((len(block_targets), 1), -1.0))
            grad_logits.mul_(scale)
            grad_x[start : start + BLOCK_ROWS] = grad_logits @ weight
            grad_weight.addmm_(grad_logits.T, block)
            if grad_bias is not None:
                grad_bias += grad_logits.sum(0)
        ctx.save_for_backward(grad_x, grad_weight, *(() if grad_bias is None else (grad_bias,)))
        return losses.sum() * scale

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_x, grad_weight, *bias = ctx.saved_tensors
        if float(grad) != 1.0:
            grad_x, grad_weight, bias = grad_x * grad, grad_weight * grad, [tensor * grad for tensor in bias]
        return grad_x, grad_weight, bias[0] if bias else None, None, None


def linear_cross_entropy(x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, scale: float) -> Tensor:
    """The sum of -log p(target) times `scale`; x is the input of the output layer: (targets, width)."""
    is_float32 = x.dtype == weight.dtype == torch.float32 and not torch.is_autocast_enabled(x.device.type)
    if x.device.type == "cpu" and is_float32 and torch.is_grad_enabled():
        loss: Tensor = _LinearCrossEntropy.apply(x, weight, bias, targets, scale)  # type: ignore[no-untyped-call]
        return loss
    return F.cross_entropy(F.linear(x, weight, bias).float(), targets, reduction="sum") * scale
