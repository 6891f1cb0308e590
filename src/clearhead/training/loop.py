"""The training loop as a generator of steps; its caller logs, prints, saves or stops."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from clearhead.core.attention import fused_attention
from clearhead.data.batches import token_batches
from clearhead.errors import ClearheadError
from clearhead.tasks.packed import PackedBatch
from clearhead.training.budget import TimeBudget
from clearhead.training.dropout import dropout_attention, use_fast_dropout
from clearhead.training.objectives.objective import NetworkOutput, Objective
from clearhead.training.optimizer import (
    clip_gradients,
    compute_schedule_factor,
    select_trainable_parameters,
    set_learning_rate,
)
from clearhead.training.precision import use_precision
from clearhead.training.settings import TrainSettings
from clearhead.training.state import TrainingState

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MIN_WEIGHT = 1e-12  # lower bound of a step's total row weight, which its loss is divided by


class DivergedError(ClearheadError):
    """The loss or its gradient became NaN or infinite; the message names the batch."""


@dataclass(frozen=True, kw_only=True)
class TrainingStep:
    """The log record of one optimizer step."""

    epoch: int  # counted from 0
    step: int  # counted from 1
    steps: int  # steps of the whole run
    loss: float  # weighted mean over the rows of this step
    rate: float  # learning rate
    gradient: float  # norm before clipping
    rows: int
    tokens: int
    seconds: float
    score: float | None = None  # on the dev rows, at the end of an epoch
    best: bool = False


class TrainingRows(Protocol):
    """Training data: rows with their lengths in tokens, any of which can be packed into a batch."""

    @property
    def row_numbers(self) -> Array: ...

    @property
    def row_tokens(self) -> Array: ...

    def take(self, rows: Array) -> PackedBatch: ...


def make_batches(data: TrainingRows, settings: TrainSettings, epoch: int) -> list[Array]:
    """The rows of each step of an epoch: a pure function of the row lengths, the seed and the epoch."""
    return token_batches(
        data.row_tokens,
        budget_tokens=settings.batch_tokens,
        rows=settings.batch_size,
        seed=settings.seed,
        epoch=epoch,
    )


def count_steps(data: TrainingRows, settings: TrainSettings) -> int:
    """The number of steps of all epochs."""
    return sum(len(make_batches(data, settings, epoch)) for epoch in range(settings.epochs))


def train_steps(
    state: TrainingState,
    data: TrainingRows,
    settings: TrainSettings,
    *,
    objective: Objective,
    row_weights: Array | None = None,
    score: Callable[[], float] | None = None,
    select_best: bool = True,
    device: str = "cpu",
    seconds: float | None = None,
) -> Iterator[TrainingStep]:
    """Train from the current state to the end; `score` is called after each epoch, and higher is better.

    Keeps the weights of the best epoch, or of the last one if `select_best` is False. With `seconds`, takes as many
    steps as fit into this time.
    """
    settings.check()
    if torch.device(device).type == "cpu":
        use_fast_dropout(state.network)
    steps = count_steps(data, settings)
    state.progress.check_steps(steps, settings.patience)
    steps = state.progress.planned or steps
    budget = None if seconds is None else TimeBudget(seconds, state.progress)
    step_number = 0
    for epoch in range(settings.epochs):
        batches = make_batches(data, settings, epoch)
        if step_number + len(batches) <= state.progress.step or state.progress.finished:
            step_number += len(batches)
            continue
        trainable_names = {name for name, _ in select_trainable_parameters(state.network, settings, epoch)}
        for name, parameter in state.network.named_parameters():
            parameter.requires_grad_(name in trainable_names)
        for batch_index, rows in enumerate(batches):
            step_number += 1
            if step_number <= state.progress.step:
                continue
            training_step = run_step(
                state,
                iterate_micro_losses(state.network, data, rows, settings, objective, row_weights, device),
                settings,
                factor=compute_schedule_factor(step_number - 1, steps, settings),
                seed=(settings.seed << 32) + step_number,
                step_number=step_number,
                steps=steps,
                epoch=epoch,
                rows=len(rows),
                batch_description=f" (rows {_format_row_numbers(data, rows)})",
            )
            state.progress.step = step_number
            if budget is not None:
                remaining_tokens = _iterate_remaining_tokens(data, settings, epoch, batch_index + 1)
                batch_tokens = int(data.row_tokens[rows].sum())
                steps = budget.record_step(batch_tokens, training_step.seconds, steps, remaining_tokens)
                state.progress.stopped = budget.is_spent and step_number < steps
            if batch_index == len(batches) - 1 or step_number == steps or state.progress.stopped:
                epoch_score = score_weights(state, score, epoch, settings.average_epochs, select_best=select_best)
                if epoch_score is not None:
                    training_step = replace(training_step, score=epoch_score[0], best=epoch_score[1])
            is_last = step_number == steps or state.progress.stopped
            state.progress.finished = is_last or _is_out_of_patience(state, settings)
            yield training_step
            if state.progress.finished:
                return


def _iterate_remaining_tokens(
    data: TrainingRows, settings: TrainSettings, epoch: int, first_batch: int
) -> Iterator[int]:
    """Yield the number of tokens of each step from batch `first_batch` of an epoch to the end of training."""
    for later_epoch in range(epoch, settings.epochs):
        for rows in make_batches(data, settings, later_epoch)[first_batch:]:
            yield int(data.row_tokens[rows].sum())
        first_batch = 0


def find_epoch(data: TrainingRows, settings: TrainSettings, step: int) -> tuple[int, bool]:
    """The epoch of a step, counted from 0, and whether the step is the last of its epoch."""
    epoch_end = 0
    for epoch in range(settings.epochs):
        epoch_end += len(make_batches(data, settings, epoch))
        if step <= epoch_end:
            return epoch, step == epoch_end
    return settings.epochs - 1, True


def finish_early(
    state: TrainingState,
    data: TrainingRows,
    settings: TrainSettings,
    score: Callable[[], float] | None = None,
    *,
    select_best: bool = True,
) -> None:
    """Finish a run at its current step, and score its weights unless that step ended an epoch."""
    state.progress.check_steps(count_steps(data, settings), settings.patience)
    if state.progress.finished:
        return
    epoch, is_epoch_end = find_epoch(data, settings, state.progress.step)
    if not is_epoch_end:
        score_weights(state, score, epoch, settings.average_epochs, select_best=select_best)
    state.progress.stopped = state.progress.finished = True


@dataclass(frozen=True, kw_only=True)
class MicroLoss:
    """The share of a micro-batch in the loss of a step."""

    minimized: Tensor  # ()
    logged: Tensor  # ()
    tokens: int


def iterate_micro_losses(
    network: Any,
    data: TrainingRows,
    rows: Array,
    settings: TrainSettings,
    objective: Objective,
    row_weights: Array | None,
    device: str,
) -> Iterator[MicroLoss]:
    """Yield the loss of each micro-batch of a step; they add up to the weighted mean over its rows."""
    weights = torch.ones(len(rows)) if row_weights is None else torch.as_tensor(row_weights[rows]).float()
    total_weight = max(float(weights.sum()), MIN_WEIGHT)
    for micro_rows in split_micro_batches(data.row_tokens[rows], settings.micro_tokens):
        batch = data.take(rows[micro_rows])
        with use_precision(settings.precision, device):
            output = compute_output(network, batch, device, objective)
            row_losses, auxiliary_losses = objective.loss(output, batch), objective.auxiliary_loss(output, batch)
        minimized = row_losses if auxiliary_losses is None else row_losses + auxiliary_losses
        micro_weights = weights[micro_rows].to(device)
        yield MicroLoss(
            minimized=(minimized * micro_weights).sum() / total_weight,
            logged=(row_losses.detach() * micro_weights).sum() / total_weight,
            tokens=batch.tokens,
        )


def _format_row_numbers(data: TrainingRows, rows: Array) -> str:
    """The first row numbers of a step, for an error message."""
    return ", ".join(str(number) for number in data.row_numbers[rows[:8]]) + (", ..." if len(rows) > 8 else "")


def run_step(
    state: TrainingState,
    losses: Iterable[MicroLoss],
    settings: TrainSettings,
    *,
    factor: float,
    seed: int,
    step_number: int,
    steps: int,
    epoch: int,
    rows: int,
    batch_description: str = "",
) -> TrainingStep:
    """Accumulate the gradients of `losses`, clip them, and update the weights."""
    started = time.perf_counter()
    network = state.network.train()
    # dropout is a function of (seed, step), so that a resumed run draws the same masks
    torch.manual_seed(seed)
    rate = set_learning_rate(state.adam, factor, settings.learning_rate)
    state.adam.zero_grad(set_to_none=True)
    loss, tokens = 0.0, 0
    for micro_loss in losses:
        micro_loss.minimized.backward()  # type: ignore[no-untyped-call]
        loss += float(micro_loss.logged.detach())
        tokens += micro_loss.tokens
    gradient_norm = clip_gradients([p for p in network.parameters() if p.grad is not None], settings.max_grad_norm)
    if not math.isfinite(loss) or not math.isfinite(gradient_norm):
        raise DivergedError(
            f"Training diverged at step {step_number}{batch_description}: loss {loss}, gradient norm {gradient_norm}. "
            f"This step was discarded. Try a lower learning rate than {settings.learning_rate:g}."
        )
    state.adam.step()
    return TrainingStep(
        epoch=epoch,
        step=step_number,
        steps=steps,
        loss=loss,
        rate=rate,
        gradient=gradient_norm,
        rows=rows,
        tokens=tokens,
        seconds=time.perf_counter() - started,
    )


def split_micro_batches(tokens: Array, budget: int) -> list[slice]:
    """Split rows into consecutive slices of at most `budget` tokens, to bound memory; a longer row is one slice."""
    slices, start, token_count = [], 0, 0
    for row, count in enumerate(tokens):
        if row > start and token_count + int(count) > budget:
            slices.append(slice(start, row))
            start, token_count = row, 0
        token_count += int(count)
    return [*slices, slice(start, len(tokens))]


def compute_logits(network: Any, batch: PackedBatch, device: str) -> Tensor:
    """The logits of packed windows: one row per window, per token, or per target token."""
    logits: Tensor = _forward(network, batch, device).logits
    return logits


def compute_output(network: Any, batch: PackedBatch, device: str, objective: Objective) -> NetworkOutput:
    """Run packed windows through the network, with the last hidden states where the objective needs them."""
    if not objective.needs_hidden:
        return NetworkOutput(logits=_forward(network, batch, device).logits.float())
    output = _forward(network, batch, device, with_hidden=True)
    token_table = network.stack.embed.token.weight
    return NetworkOutput(logits=output.logits.float(), hidden=output.last, token_table=token_table)


def _forward(network: Any, batch: PackedBatch, device: str, *, with_hidden: bool = False) -> Any:
    ids, segments, lengths, target_ids, target_lengths = (
        None if array is None else torch.as_tensor(array, device=device)
        for array in (batch.ids, batch.segments, batch.lengths, batch.target_ids, batch.target_lengths)
    )
    kernel = dropout_attention if torch.device(device).type == "cpu" else fused_attention
    packing = {"lengths": lengths, "target_lengths": target_lengths}
    return network(ids, None, segments, target_ids, **packing, kernel=kernel, all_tokens=with_hidden)


def score_weights(
    state: TrainingState, score: Callable[[], float] | None, epoch: int, average_epochs: int, *, select_best: bool
) -> tuple[float, bool] | None:
    """Score the mean of the last epochs' weights and keep it if it is the best, or always if not `select_best`.

    Returns the score and whether it is the best so far; None without `score`.
    """
    state.network.eval()
    if average_epochs > 1:
        state.keep_recent(epoch, average_epochs)
    with state.use_averaged_weights():
        if score is None:
            if average_epochs > 1:
                state.keep_best()
            return None
        dev_score = float(score())
        is_best = state.record_score(dev_score, epoch)
        if not select_best:
            state.keep_best()
        return dev_score, is_best and select_best


def _is_out_of_patience(state: TrainingState, settings: TrainSettings) -> bool:
    return settings.patience is not None and state.progress.waited >= settings.patience
