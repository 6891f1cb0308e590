"""A few real steps, to tell what many of them would take."""

from __future__ import annotations

import time

import torch

from clearhead.core.models import Network
from clearhead.tasks.encoded import Encoded
from clearhead.training.loop import batches, train_steps
from clearhead.training.optimise import optimiser
from clearhead.training.settings import TrainSettings
from clearhead.training.state import Progress, State

COPIES = 5  # of every weight: itself, its gradient, two moments, the best so far


def trial(
    network: Network, data: Encoded, settings: TrainSettings, objective: str, *, steps: int
) -> tuple[float, float]:
    """Tokens a second, and bytes of memory beside the program itself; the network has learned a little afterwards."""
    state = State(network, optimiser(network, settings), Progress())
    made = train_steps(state, data, settings, objective=objective)
    weights = {parameter.data_ptr(): parameter.numel() * parameter.element_size() for parameter in network.parameters()}
    kept: dict[int, int] = {}  # activations that the way back needs, by where they lie

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in weights:
            kept[place] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        first = next(made)  # also fills caches and the optimiser's moments
    largest = max(int(data.row_tokens[rows].sum()) for rows in batches(data, settings, 0))
    memory = COPIES * sum(weights.values()) + sum(kept.values()) * min(largest, settings.micro_tokens) / first.tokens
    tokens, begin = 0, time.perf_counter()
    for _, step in zip(range(steps), made, strict=False):
        tokens += step.tokens
    speed = tokens / (time.perf_counter() - begin) if tokens else first.tokens / first.seconds
    return speed, float(memory)
