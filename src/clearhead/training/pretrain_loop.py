"""The loop of pre-training: a generator of steps, each a pure function of (seed, step), whatever was before it."""

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
from clearhead.training.objectives.pretraining import ElectraPair, count_targets, pretrain_losses
from clearhead.training.optimizer import RowwiseAdamW, schedule_factor
from clearhead.training.precision import use_precision
from clearhead.training.settings import TrainSettings
from clearhead.training.state import TrainingProgress, TrainingState

TRIAL_STEPS, WARMUP_STEPS = 9, 3  # steps that are timed, and those of them that only fill caches

BatchSource = Callable[[int], PretrainBatch]  # by the step, counted from 0


def make_pretrain_optimizer(network: nn.Module, settings: TrainSettings, fresh: Iterable[Tensor] = ()) -> RowwiseAdamW:
    """AdamW with decay on matrices alone; what a checkpoint did not have may learn faster than the rest."""
    faster = {id(one) for one in fresh}
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for one in network.parameters():
        rate = (
            settings.head_learning_rate
            if id(one) in faster and settings.head_learning_rate is not None
            else settings.learning_rate
        )
        groups.setdefault((rate, settings.weight_decay if one.ndim > 1 else 0.0), []).append(one)
    made = [{"params": ps, "lr": rate, "base": rate, "weight_decay": decay} for (rate, decay), ps in groups.items()]
    return RowwiseAdamW(made, settings.adam_beta2)


def fresh_parameters(network: Any, names: Iterable[str]) -> list[Tensor]:
    """What is new beside a checkpoint: the tensors that it did not have, and a new generator but for its words."""
    taught = network.model if isinstance(network, ElectraPair) else network
    known = dict(taught.named_parameters())
    made = [known[name] for name in names if name in known]
    if isinstance(network, ElectraPair) and network.fresh:
        shared = {id(one) for one in known.values()}
        made += [one for one in network.generator.parameters() if id(one) not in shared]
    return made


@torch.no_grad()
def init_new_network(network: Any, probs: Any, *, around: bool = True) -> None:
    """Start a new model from word frequencies in its output bias and, with `around`, from local attention."""
    speaker: Any = network.generator if isinstance(network, ElectraPair) else network
    for one in (
        ((network.generator, network.model) if isinstance(network, ElectraPair) else (network,)) if around else ()
    ):
        init_local_attention(one)
    init_output_bias(speaker, probs)
    if not speaker.shape.head.tied:  # T5's begins so loud that the first losses would be far above chance
        out = speaker.head.out.weight
        out *= min(1.0, float(out.shape[1] ** -0.5 / out.std()))


@torch.no_grad()
def init_output_bias(network: Any, probs: Any) -> None:
    """An output bias that guesses words by how frequent they are."""
    bias = network.head.out.bias
    if bias is not None and len(bias) == len(probs):
        logs = torch.as_tensor(probs).log()
        bias.copy_((logs - logs.mean()).to(bias))


def pretrain_steps(
    state: TrainingState,
    batches: BatchSource,
    losses: tuple[str, ...],
    settings: TrainSettings,
    *,
    steps: int,
    per_epoch: int,
    score: Callable[[int], float] | None = None,
    evaluations: int = 1,
    device: str = "cpu",
) -> Iterator[TrainingStep]:
    """Learn from where the state stands to the end; `score` is asked so many times, evenly, and higher is better."""
    state.progress.check_steps(steps, None)
    if torch.device(device).type == "cpu":
        use_fast_dropout(state.network)
    for number in range(state.progress.step, steps):
        made = _run_pretrain_step(state, batches(number), losses, settings, number, steps, device, number // per_epoch)
        state.progress.step = number + 1
        state.progress.finished = number + 1 == steps
        if score is not None and (number + 1) * evaluations // steps > number * evaluations // steps:
            made = _score_step(state, score, made)
        yield made


def _run_pretrain_step(
    state: TrainingState,
    batch: PretrainBatch,
    losses: tuple[str, ...],
    settings: TrainSettings,
    number: int,
    steps: int,
    device: str,
    epoch: int,
) -> TrainingStep:
    """One step over a batch; each of its losses is the mean over what it is computed of, in the whole batch."""
    shares = {name: 1 / max(count, 1) for name, count in count_targets(batch, losses).items()}

    def micro_losses() -> Iterator[MicroLoss]:
        for some in split_micro_batches(batch.lengths, settings.micro_tokens):
            part = batch.slice_texts(some.start, some.stop)
            with use_precision(settings.precision, device):
                found = pretrain_losses(state.network, part, shares, device)
            total = torch.stack(list(found.values())).sum()
            yield MicroLoss(minimized=total, logged=total, tokens=part.tokens)

    return run_step(
        state,
        micro_losses(),
        settings,
        factor=schedule_factor(number, steps, settings),
        seed=(settings.seed << 32) + number,  # dropout, and what a generator draws
        number=number + 1,
        steps=steps,
        epoch=epoch,
        rows=len(batch.lengths),
    )


def _score_step(state: TrainingState, score: Callable[[int], float], made: TrainingStep) -> TrainingStep:
    """Measure on what was held out, and keep the weights if they are the best so far."""
    state.network.eval()
    value = float(score(made.step))
    if not math.isfinite(value):
        raise DivergedError(
            f"The held-out loss is {-value} at step {made.step}; nothing of this step was kept. A lower rate is the "
            "usual remedy."
        )
    return replace(made, score=value, best=state.record_score(value, made.epoch))


def measure_step_seconds(
    network: Any, batches: BatchSource, losses: tuple[str, ...], settings: TrainSettings, device: str
) -> float:
    """How long a step takes here, by a few real ones on a copy that is thrown away."""
    twin = copy.deepcopy(network)
    state = TrainingState(twin, make_pretrain_optimizer(twin, settings), TrainingProgress())
    made = pretrain_steps(state, batches, losses, settings, steps=TRIAL_STEPS, per_epoch=TRIAL_STEPS, device=device)
    begun, times = time.perf_counter(), []
    for _ in made:
        times.append(time.perf_counter() - begun)
        begun = time.perf_counter()
    return median(times[WARMUP_STEPS:])
