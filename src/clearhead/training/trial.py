"""Trial steps: estimate the speed and memory of a run from a few real steps."""

from __future__ import annotations

import time

import torch

from clearhead.core.models import Network
from clearhead.progress import Progress, no_progress
from clearhead.tasks.packed import PackedDataset
from clearhead.training import process_memory
from clearhead.training.loop import make_batches, train_steps
from clearhead.training.objectives import Objective
from clearhead.training.optimizer import make_optimizer
from clearhead.training.settings import TrainSettings
from clearhead.training.state import TrainingProgress, TrainingState

TRAINING_COPIES = 3  # copies of each weight after the first step: its gradient and two moments
SAVED_COPIES = 2  # further copies later in a run: the best weights, and those for saving and scoring
MAX_SECONDS = 4.0  # time limit of the timed steps
PROGRAM_BYTES = 270_000_000  # Python with torch and a small dataset, where the system does not report memory


def run_trial(
    network: Network,
    data: PackedDataset,
    settings: TrainSettings,
    objective: Objective,
    *,
    steps: int,
    progress: Progress = no_progress,
) -> tuple[float, float]:
    """Estimate the tokens per second and the peak memory in bytes of a whole run in this process.

    Times up to `steps` steps within a few seconds, after one that warms up; `progress` reports each. The memory is the
    sum of the current memory (program, rows and weights), the peak of the trial steps (gradients, moments, activations
    and what the allocator does not return) and the copies that a run makes later. Where the system does not report
    memory, or the process had some to spare, it is at least the size of the tensors. The trial steps change the weights
    of the network.
    """
    state = TrainingState(network, make_optimizer(network, settings), TrainingProgress())
    training_steps = train_steps(state, data, settings, objective=objective)
    weight_bytes = {p.data_ptr(): p.numel() * p.element_size() for p in network.parameters()}
    activation_bytes: dict[int, int] = {}  # activations kept for the backward pass, by address

    def record_activation(tensor: torch.Tensor) -> torch.Tensor:
        address = tensor.untyped_storage().data_ptr()
        if address not in weight_bytes:
            activation_bytes[address] = tensor.untyped_storage().nbytes()
        return tensor

    total_weight_bytes = sum(weight_bytes.values())
    resident_bytes = process_memory.read_resident() or PROGRAM_BYTES + total_weight_bytes
    process_memory.reset_peak()
    with torch.autograd.graph.saved_tensors_hooks(record_activation, lambda tensor: tensor):
        first_step = next(training_steps)  # also fills caches and the optimizer's moments
    max_batch_tokens = max(int(data.row_tokens[rows].sum()) for rows in make_batches(data, settings, 0))
    activations = sum(activation_bytes.values()) / first_step.tokens * min(max_batch_tokens, settings.micro_tokens)
    timed_tokens, max_step_tokens, started = 0, first_step.tokens, time.perf_counter()
    progress("timing training steps", 1, steps + 1)
    for step_index, training_step in zip(range(steps), training_steps, strict=False):
        timed_tokens += training_step.tokens
        max_step_tokens = max(max_step_tokens, training_step.tokens)
        progress("timing training steps", step_index + 2, steps + 1)
        if time.perf_counter() - started > MAX_SECONDS:
            break
    elapsed = time.perf_counter() - started
    added_bytes = (process_memory.read_peak() or resident_bytes) - resident_bytes
    transient_bytes = max(added_bytes - TRAINING_COPIES * total_weight_bytes, 0)
    # memory other than the weights grows with the tokens of a micro-batch
    growth = max(min(max_batch_tokens, settings.micro_tokens) / min(max_step_tokens, settings.micro_tokens), 1)
    copied_bytes = (TRAINING_COPIES + SAVED_COPIES) * total_weight_bytes
    tokens_per_second = timed_tokens / elapsed if timed_tokens else first_step.tokens / first_step.seconds
    return tokens_per_second, resident_bytes + copied_bytes + max(transient_bytes * growth, activations)
