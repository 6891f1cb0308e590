"""Averages over the windows, tokens or options of each row."""

from __future__ import annotations

import torch
from torch import Tensor


def average_by_row(values: Tensor, row_indices: Tensor, row_count: int) -> Tensor:
    """The mean of the values of each row; 0 for rows without values."""
    totals = values.new_zeros(row_count).index_add(0, row_indices, values)
    counts = values.new_zeros(row_count).index_add(0, row_indices, torch.ones_like(values))
    return totals / counts.clamp(min=1)


def pool_windows(logits: Tensor, row_indices: Tensor, row_count: int) -> Tensor:
    """Average the windows of each row: (windows, outputs) to (rows, outputs)."""
    if len(logits) == row_count:
        return logits
    counts = torch.zeros(row_count, dtype=logits.dtype, device=logits.device)
    counts = counts.index_add(0, row_indices, torch.ones_like(row_indices, dtype=logits.dtype))
    totals = logits.new_zeros((row_count, logits.shape[1])).index_add(0, row_indices, logits)
    return totals / counts[:, None]
