"""The pre-training loop as a generator of steps, whose batches and dropout are pure functions of (seed, step)."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.pretraining.batch import PretrainBatch
from clearhead.training.dropout import use_fast_dropout
from clearhead.training.local_init import init_local_attention
from clearhead.training.loop import DivergedError, MicroLoss, TrainingStep, run_step, split_micro_batches
from clearhead.training.objectives.pretraining import ElectraPair, compute_pretrain_losses, count_targets
from clearhead.training.optimizer import RowwiseAdamW, compute_schedule_factor
from clearhead.training.precision import use_precision
from clearhead.training.settings import TrainSettings
from clearhead.training.state import TrainingProgress, TrainingState

TRIAL_STEPS, WARMUP_STEPS = 9, 3  # timed steps, and the first of them, ignored because they fill caches

BatchSource = Callable[[int], PretrainBatch]  # from the step, counted from 0, to its batch


def make_pretrain_optimizer(network: nn.Module, settings: TrainSettings, fresh: Iterable[Tensor] = ()) -> RowwiseAdamW:
    """AdamW with weight decay on matrices only; `fresh` parameters train at the head's learning rate if it is set."""
    fresh_ids = {id(parameter) for parameter in fresh}
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in network.parameters():
        rate = (
            settings.head_learning_rate
            if id(parameter) in fresh_ids and settings.head_learning_rate is not None
            else settings.learning_rate
        )
        groups.setdefault((rate, settings.weight_decay if parameter.ndim > 1 else 0.0), []).append(parameter)
    param_groups = [
        {"params": members, "lr": rate, "base": rate, "weight_decay": decay}
        for (rate, decay), members in groups.items()
    ]
    return RowwiseAdamW(param_groups, settings.adam_beta2)


def collect_fresh_parameters(network: Any, names: Iterable[str]) -> list[Tensor]:
    """The parameters that a checkpoint lacked: `names`, and those of a new generator except the shared embeddings."""
    model = network.model if isinstance(network, ElectraPair) else network
    by_name = dict(model.named_parameters())
    parameters = [by_name[name] for name in names if name in by_name]
    if isinstance(network, ElectraPair) and network.fresh:
        shared_ids = {id(parameter) for parameter in by_name.values()}
        parameters += [parameter for parameter in network.generator.parameters() if id(parameter) not in shared_ids]
    return parameters


@torch.no_grad()
def init_new_network(network: Any, token_probs: Any, *, local_attention: bool = True) -> None:
    """Initialize the output bias from token frequencies and, with `local_attention`, heads that attend to neighbors."""
    predictor: Any = network.generator if isinstance(network, ElectraPair) else network
    members = (network.generator, network.model) if isinstance(network, ElectraPair) else (network,)
    for member in members if local_attention else ():
        init_local_attention(member)
    init_output_bias(predictor, token_probs)
    if not predictor.shape.head.tied:  # T5's initial scale would put the first losses far above chance
        output_weight = predictor.head.out.weight
        output_weight *= min(1.0, float(output_weight.shape[1] ** -0.5 / output_weight.std()))


@torch.no_grad()
def init_output_bias(network: Any, token_probs: Any) -> None:
    """Set the output bias so that tokens are predicted by their frequency."""
    bias = network.head.out.bias
    if bias is not None and len(bias) == len(token_probs):
        log_probs = torch.as_tensor(token_probs).log()
        bias.copy_((log_probs - log_probs.mean()).to(bias))


def pretrain_steps(
    state: TrainingState,
    batches: BatchSource,
    losses: tuple[str, ...],
    settings: TrainSettings,
    *,
    steps: int,
    steps_per_epoch: int,
    score: Callable[[int], float] | None = None,
    evaluations: int = 1,
    device: str = "cpu",
) -> Iterator[TrainingStep]:
    """Train from the current state to the end; `score` is called `evaluations` times at equal distances."""
    state.progress.check_steps(steps, None)
    if torch.device(device).type == "cpu":
        use_fast_dropout(state.network)
    for step_index in range(state.progress.step, steps):
        training_step = _run_pretrain_step(
            state, batches(step_index), losses, settings, step_index, steps, device, step_index // steps_per_epoch
        )
        state.progress.step = step_index + 1
        state.progress.finished = step_index + 1 == steps
        if score is not None and (step_index + 1) * evaluations // steps > step_index * evaluations // steps:
            training_step = _score_step(state, score, training_step)
        yield training_step


def _run_pretrain_step(
    state: TrainingState,
    batch: PretrainBatch,
    losses: tuple[str, ...],
    settings: TrainSettings,
    step_index: int,
    steps: int,
    device: str,
    epoch: int,
) -> TrainingStep:
    """Train on one batch; each loss is the mean over its targets in the whole batch."""
    loss_scales = {name: 1 / max(count, 1) for name, count in count_targets(batch, losses).items()}

    def micro_losses() -> Iterator[MicroLoss]:
        for micro_rows in split_micro_batches(batch.lengths, settings.micro_tokens):
            micro_batch = batch.slice_texts(micro_rows.start, micro_rows.stop)
            with use_precision(settings.precision, device):
                loss_terms = compute_pretrain_losses(state.network, micro_batch, loss_scales, device)
            total_loss = torch.stack(list(loss_terms.values())).sum()
            yield MicroLoss(minimized=total_loss, logged=total_loss, tokens=micro_batch.tokens)

    return run_step(
        state,
        micro_losses(),
        settings,
        factor=compute_schedule_factor(step_index, steps, settings),
        seed=(settings.seed << 32) + step_index,  # of dropout, and of the tokens that a generator samples
        step_number=step_index + 1,
        steps=steps,
        epoch=epoch,
        rows=len(batch.lengths),
    )


def _score_step(state: TrainingState, score: Callable[[int], float], training_step: TrainingStep) -> TrainingStep:
    """Score the held-out texts, and keep the weights if they are the best so far."""
    state.network.eval()
    held_out_score = float(score(training_step.step))
    if not math.isfinite(held_out_score):
        raise DivergedError(
            f"Training diverged at step {training_step.step}: held-out loss {-held_out_score}. "
            "This step was discarded. Try a lower learning rate."
        )
    return replace(training_step, score=held_out_score, best=state.record_score(held_out_score, training_step.epoch))


def measure_step_seconds(
    network: Any, batches: BatchSource, losses: tuple[str, ...], settings: TrainSettings, device: str
) -> float:
    """The median time of a step on this machine, from a few steps on a copy of the network."""
    network_copy = copy.deepcopy(network)
    state = TrainingState(network_copy, make_pretrain_optimizer(network_copy, settings), TrainingProgress())
    training_steps = pretrain_steps(
        state, batches, losses, settings, steps=TRIAL_STEPS, steps_per_epoch=TRIAL_STEPS, device=device
    )
    started, durations = time.perf_counter(), []
    for _ in training_steps:
        durations.append(time.perf_counter() - started)
        started = time.perf_counter()
    return median(durations[WARMUP_STEPS:])
