"""Losses: one number per row, so that accumulated parts weigh every row alike."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Objective = Callable[[Tensor, Tensor, float], Tensor]


def cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """-log p(target), softened by smoothing: (rows,)."""
    return F.cross_entropy(logits, targets.long(), reduction="none", label_smoothing=smoothing)


def binary(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """The mean over labels of each label's own yes-or-no loss: (rows,)."""
    goal = targets.to(logits.dtype)
    goal = goal * (1 - smoothing) + smoothing / 2
    return F.binary_cross_entropy_with_logits(logits, goal, reduction="none").mean(-1)


def squared(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:  # noqa: ARG001
    """(answer - target)^2: (rows,)."""
    return (logits.squeeze(-1) - targets.to(logits.dtype)).square()


OBJECTIVES: dict[str, Objective] = {"cross_entropy": cross_entropy, "binary": binary, "squared": squared}


def pool_windows(logits: Tensor, owners: Tensor, rows: int) -> Tensor:
    """The mean of each row's windows: (windows, outputs) to (rows, outputs)."""
    if len(logits) == rows:
        return logits
    counts = torch.zeros(rows, dtype=logits.dtype, device=logits.device)
    counts = counts.index_add(0, owners, torch.ones_like(owners, dtype=logits.dtype))
    total = logits.new_zeros((rows, logits.shape[1])).index_add(0, owners, logits)
    return total / counts[:, None]
