"""From windows, tokens and options to rows."""

from __future__ import annotations

import torch
from torch import Tensor


def row_means(values: Tensor, owners: Tensor, rows: int) -> Tensor:
    """The mean of what each row owns; 0 where it owns nothing."""
    total = values.new_zeros(rows).index_add(0, owners, values)
    counts = values.new_zeros(rows).index_add(0, owners, torch.ones_like(values))
    return total / counts.clamp(min=1)


def pool_windows(logits: Tensor, owners: Tensor, rows: int) -> Tensor:
    """The mean of each row's windows: (windows, outputs) to (rows, outputs)."""
    if len(logits) == rows:
        return logits
    counts = torch.zeros(rows, dtype=logits.dtype, device=logits.device)
    counts = counts.index_add(0, owners, torch.ones_like(owners, dtype=logits.dtype))
    total = logits.new_zeros((rows, logits.shape[1])).index_add(0, owners, logits)
    return total / counts[:, None]
