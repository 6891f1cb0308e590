"""The number of threads of a run."""

from __future__ import annotations

import os
from functools import partial

import torch

from clearhead.machine.threads import call_at_end
from clearhead.shape import ModelShape
from clearhead.training.settings import TrainSettings

USER_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # values set by the user take precedence
MIN_WORK = 1 << 24  # multiplications per thread in one matrix product; with less, threads cost more than they save
ROW_TOKENS = 32  # assumed length of a row: the number of threads must not depend on the data


def use_threads(count: int | None, shape: ModelShape | None = None, settings: TrainSettings | None = None) -> int:
    """Use `count` threads, or as many as a model of this shape keeps busy, and return their number.

    The number of threads changes the order of floating-point sums: only the same number reproduces a run bit by bit.
    """
    previous_count = torch.get_num_threads()
    if count is None:
        count = previous_count if shape is None else choose_threads(shape, settings or TrainSettings())
    call_at_end(partial(torch.set_num_threads, previous_count))
    torch.set_num_threads(count)
    return torch.get_num_threads()


def choose_threads(shape: ModelShape, settings: TrainSettings) -> int:
    """The number of threads that torch would use, or fewer for a model too small to keep them busy."""
    max_threads = torch.get_num_threads()
    if any(name in os.environ for name in USER_VARIABLES):
        return max_threads
    tokens = settings.batch_tokens or (settings.batch_size or 1) * ROW_TOKENS
    stacks = [stack for stack in (shape.stack, shape.decoder) if stack is not None]
    max_matrix_size = max(stack.width * max(stack.width, stack.feed_forward_width) for stack in stacks)
    return max(1, min(max_threads, min(tokens, settings.micro_tokens) * max_matrix_size // MIN_WORK))
