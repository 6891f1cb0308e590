"""A few real steps, to tell what many of them would take."""

from __future__ import annotations

import time

import torch

from clearhead.core.models import Network
from clearhead.progress import Progress, no_progress
from clearhead.tasks.encoded import Encoded
from clearhead.training import process_memory
from clearhead.training.loop import make_batches, train_steps
from clearhead.training.objectives import Objective
from clearhead.training.optimizer import make_optimizer
from clearhead.training.settings import TrainSettings
from clearhead.training.state import TrainingProgress, TrainingState

TRAINING_COPIES = 3  # copies of every weight that the first step makes: its gradient and two moments
SAVED_COPIES = 2  # further ones that a run makes later: the best so far, and what saving and measuring take
MAX_SECONDS = 4.0  # of steps, to tell how fast they are
PROGRAM_BYTES = 270_000_000  # bytes of Python with torch and a small file read, where the system does not tell


def run_trial(
    network: Network,
    data: Encoded,
    settings: TrainSettings,
    objective: Objective,
    *,
    steps: int,
    progress: Progress = no_progress,
) -> tuple[float, float]:
    """Tokens a second, and the bytes that a whole run in a process like this one would hold at most.

    As many `steps` as fit into a few seconds, after one that warms up; `progress` reports each.

    That is what the process holds now, with the program, the rows and the weights; what the steps here add at their
    peak (gradients, moments, activations and what the allocator cannot give back); and what comes later in a run. Where
    the system does not tell, or the process had room to spare, it is at least what the tensors are. The network has
    learned a little afterwards.
    """
    state = TrainingState(network, make_optimizer(network, settings), TrainingProgress())
    made = train_steps(state, data, settings, objective=objective)
    weights = {parameter.data_ptr(): parameter.numel() * parameter.element_size() for parameter in network.parameters()}
    kept: dict[int, int] = {}  # activations that the way back needs, by where they lie

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in weights:
            kept[place] = tensor.untyped_storage().nbytes()
        return tensor

    size = sum(weights.values())
    before = process_memory.read_resident() or PROGRAM_BYTES + size
    process_memory.reset_peak()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        first = next(made)  # also fills caches and the optimizer's moments
    largest = max(int(data.row_tokens[rows].sum()) for rows in make_batches(data, settings, 0))
    activations = sum(kept.values()) / first.tokens * min(largest, settings.micro_tokens)
    tokens, most, begin = 0, first.tokens, time.perf_counter()
    progress("trying out training steps", 1, steps + 1)
    for number, step in zip(range(steps), made, strict=False):
        tokens += step.tokens
        most = max(most, step.tokens)
        progress("trying out training steps", number + 2, steps + 1)
        if time.perf_counter() - begin > MAX_SECONDS:
            break
    spent = time.perf_counter() - begin
    beside = max(
        (process_memory.read_peak() or before) - before - TRAINING_COPIES * size, 0
    )  # the weights, by as many tokens as were tried
    added = beside * max(min(largest, settings.micro_tokens) / min(most, settings.micro_tokens), 1)
    speed = tokens / spent if tokens else first.tokens / first.seconds
    return speed, before + (TRAINING_COPIES + SAVED_COPIES) * size + max(added, activations)
