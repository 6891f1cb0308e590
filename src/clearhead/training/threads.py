"""How many cores a run computes on."""

from __future__ import annotations

import torch


def use_threads(count: int | None) -> int:
    """Compute on so many cores, or on as many as torch finds right; returns how many.

    Sums are added in another order on another number of cores, so that a run is repeated bit by bit only on as many.
    """
    if count is not None:
        torch.set_num_threads(count)
    return torch.get_num_threads()
