"""How many cores a run computes on."""

from __future__ import annotations

import os
from functools import partial

import torch

from clearhead.machine.threads import at_end
from clearhead.shape import ModelShape
from clearhead.training.settings import TrainSettings

USER_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # what users set wins
MIN_WORK = 1 << 24  # multiplications of one product that a thread must have: below, threads cost more than they save
ROW_TOKENS = 32  # of a row, about; the number of threads must not depend on the rows


def use_threads(count: int | None, shape: ModelShape | None = None, settings: TrainSettings | None = None) -> int:
    """Compute on so many cores, or on as many as a model of this shape keeps busy; returns how many.

    Sums are added in another order on another number of cores, so that a run is repeated bit by bit only on as many.
    """
    before = torch.get_num_threads()
    if count is None:
        count = before if shape is None else choose_threads(shape, settings or TrainSettings())
    at_end(partial(torch.set_num_threads, before))
    torch.set_num_threads(count)
    return torch.get_num_threads()


def choose_threads(shape: ModelShape, settings: TrainSettings) -> int:
    """As many threads as torch would take, but none that has too little to do in a model so small."""
    most = torch.get_num_threads()
    if any(name in os.environ for name in USER_VARIABLES):
        return most
    tokens = settings.batch_tokens or (settings.batch_size or 1) * ROW_TOKENS
    stacks = [stack for stack in (shape.stack, shape.decoder) if stack is not None]
    widest = max(stack.width * max(stack.width, stack.feed_forward_width) for stack in stacks)
    return max(1, min(most, min(tokens, settings.micro_tokens) * widest // MIN_WORK))
