"""The loop as a generator of steps: whoever drives it prints, streams, saves or stops; the loop knows none of that."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from clearhead.core.attention import fused
from clearhead.data.batches import token_batches
from clearhead.errors import ClearheadError
from clearhead.tasks.encoded import Part
from clearhead.training.budget import TimeBudget
from clearhead.training.dropout import dropout_attention, use_fast_dropout
from clearhead.training.objectives.objective import NetworkOutput, Objective
from clearhead.training.optimizer import clip_gradients, schedule_factor, set_learning_rate, trainable_parameters
from clearhead.training.precision import use_precision
from clearhead.training.settings import TrainSettings
from clearhead.training.state import TrainingState

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MIN_WEIGHT = 1e-12  # of weights: a step whose rows weigh nothing teaches nothing


class DivergedError(ClearheadError):
    """The loss became NaN or infinite; the message names the batch."""


@dataclass(frozen=True, kw_only=True)
class TrainingStep:
    """What one step did."""

    epoch: int  # counted from 0
    step: int  # steps done, this one included
    steps: int  # steps of the whole run
    loss: float  # the mean over this step's rows, weighted
    rate: float
    gradient: float  # its length before clipping
    rows: int
    tokens: int
    seconds: float
    score: float | None = None  # of the dev rows, at the end of an epoch
    best: bool = False


class TrainingRows(Protocol):
    """What can be learned from: rows with a cost, any of which can be taken together."""

    @property
    def numbers(self) -> Array: ...

    @property
    def row_tokens(self) -> Array: ...

    def take(self, rows: Array) -> Part: ...


def make_batches(data: TrainingRows, settings: TrainSettings, epoch: int) -> list[Array]:
    """The rows of each step of an epoch: a pure function of the data's lengths, the seed and the epoch."""
    return token_batches(
        data.row_tokens,
        budget_tokens=settings.batch_tokens,
        rows=settings.batch_size,
        seed=settings.seed,
        epoch=epoch,
    )


def count_steps(data: TrainingRows, settings: TrainSettings) -> int:
    """How many steps all epochs have."""
    return sum(len(make_batches(data, settings, epoch)) for epoch in range(settings.epochs))


def train_steps(
    state: TrainingState,
    data: TrainingRows,
    settings: TrainSettings,
    *,
    objective: Objective,
    row_weights: Array | None = None,
    score: Callable[[], float] | None = None,
    chooses: bool = True,
    device: str = "cpu",
    seconds: float | None = None,
) -> Iterator[TrainingStep]:
    """Learn from where the state stands to the end; `score` is asked after each epoch, and higher is better.

    The best epoch is kept, or the last one where `chooses` is False. With `seconds`, as many steps as fit this time.
    """
    settings.check()
    if torch.device(device).type == "cpu":
        use_fast_dropout(state.network)
    steps = count_steps(data, settings)
    state.progress.check_steps(steps, settings.patience)
    steps = state.progress.planned or steps
    budget = None if seconds is None else TimeBudget(seconds, state.progress)
    done = 0
    for epoch in range(settings.epochs):
        rows_of = make_batches(data, settings, epoch)
        if done + len(rows_of) <= state.progress.step or state.progress.finished:
            done += len(rows_of)
            continue
        learning = trainable_parameters(state.network, settings, epoch)
        chosen = {name for name, _ in learning}
        for name, parameter in state.network.named_parameters():
            parameter.requires_grad_(name in chosen)
        for number, rows in enumerate(rows_of):
            done += 1
            if done <= state.progress.step:
                continue
            made = run_step(
                state,
                iterate_micro_losses(state.network, data, rows, settings, objective, row_weights, device),
                settings,
                factor=schedule_factor(done - 1, steps, settings),
                seed=(settings.seed << 32) + done,
                number=done,
                steps=steps,
                epoch=epoch,
                rows=len(rows),
                named=f" (rows {_format_row_numbers(data, rows)})",
            )
            state.progress.step = done
            if budget is not None:
                cost = int(data.row_tokens[rows].sum())
                steps = budget.spend(cost, made.seconds, steps, _remaining_costs(data, settings, epoch, number + 1))
                state.progress.stopped = budget.is_spent and done < steps
            if number == len(rows_of) - 1 or done == steps or state.progress.stopped:
                judged = score_weights(state, score, epoch, settings.average_epochs, chooses=chooses)
                made = made if judged is None else replace(made, score=judged[0], best=judged[1])
            state.progress.finished = done == steps or state.progress.stopped or _is_out_of_patience(state, settings)
            yield made
            if state.progress.finished:
                return


def _remaining_costs(data: TrainingRows, settings: TrainSettings, epoch: int, begin: int) -> Iterator[int]:
    """The tokens of every step from a place in an epoch on."""
    for later in range(epoch, settings.epochs):
        for rows in make_batches(data, settings, later)[begin:]:
            yield int(data.row_tokens[rows].sum())
        begin = 0


def find_epoch(data: TrainingRows, settings: TrainSettings, step: int) -> tuple[int, bool]:
    """The epoch, counted from 0, of the last of so many steps, and whether that step ends it."""
    done = 0
    for epoch in range(settings.epochs):
        done += len(make_batches(data, settings, epoch))
        if step <= done:
            return epoch, step == done
    return settings.epochs - 1, True


def finish_early(
    state: TrainingState,
    data: TrainingRows,
    settings: TrainSettings,
    score: Callable[[], float] | None = None,
    *,
    chooses: bool = True,
) -> None:
    """End a run where it stands: its weights are measured unless they were, and nothing more is learned."""
    state.progress.check_steps(count_steps(data, settings), settings.patience)
    if state.progress.finished:
        return
    epoch, measured = find_epoch(data, settings, state.progress.step)
    if not measured:
        score_weights(state, score, epoch, settings.average_epochs, chooses=chooses)
    state.progress.stopped = state.progress.finished = True


@dataclass(frozen=True, kw_only=True)
class MicroLoss:
    """The part of a step's loss that was computed at once."""

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
    """The loss of one step, a micro-batch at a time; together they are the weighted mean of its rows."""
    weights = torch.ones(len(rows)) if row_weights is None else torch.as_tensor(row_weights[rows]).float()
    total = max(float(weights.sum()), MIN_WEIGHT)
    for some in split_micro_batches(data.row_tokens[rows], settings.micro_tokens):
        batch = data.take(rows[some])
        with use_precision(settings.precision, device):
            output = compute_output(network, batch, device, objective)
            main, auxiliary = objective.loss(output, batch), objective.auxiliary_loss(output, batch)
        minimized = main if auxiliary is None else main + auxiliary
        shares = weights[some].to(device)
        yield MicroLoss(
            minimized=(minimized * shares).sum() / total,
            logged=(main.detach() * shares).sum() / total,
            tokens=batch.tokens,
        )


def _format_row_numbers(data: TrainingRows, rows: Array) -> str:
    """The first row numbers of a step, to name it in an error message."""
    return ", ".join(str(number) for number in data.numbers[rows[:8]]) + (", ..." if len(rows) > 8 else "")


def run_step(
    state: TrainingState,
    losses: Iterable[MicroLoss],
    settings: TrainSettings,
    *,
    factor: float,
    seed: int,
    number: int,
    steps: int,
    epoch: int,
    rows: int,
    named: str = "",
) -> TrainingStep:
    """Accumulate the gradients of `losses`, which are computed one after the other, clip them and let Adam step."""
    begin = time.perf_counter()
    network = state.network.train()
    # dropout is a function of (seed, step): a resumed run draws what the first one would have drawn
    torch.manual_seed(seed)
    rate = set_learning_rate(state.adam, factor, settings.learning_rate)
    state.adam.zero_grad(set_to_none=True)
    loss, tokens = 0.0, 0
    for part in losses:
        part.minimized.backward()  # type: ignore[no-untyped-call]
        loss += float(part.logged.detach())
        tokens += part.tokens
    gradient = clip_gradients([p for p in network.parameters() if p.grad is not None], settings.max_grad_norm)
    if not math.isfinite(loss) or not math.isfinite(gradient):
        raise DivergedError(
            f"The loss is {loss} and its gradient {gradient} at step {number}{named}; nothing of this step was kept. A "
            f"lower rate than {settings.learning_rate:g} is the usual remedy."
        )
    state.adam.step()
    return TrainingStep(
        epoch=epoch,
        step=number,
        steps=steps,
        loss=loss,
        rate=rate,
        gradient=gradient,
        rows=rows,
        tokens=tokens,
        seconds=time.perf_counter() - begin,
    )


def split_micro_batches(tokens: Array, budget: int) -> list[slice]:
    """Neighbouring rows whose tokens fit a budget: gradients add up, so memory is bounded whatever the step."""
    parts, begin, filled = [], 0, 0
    for place, count in enumerate(tokens):
        if place > begin and filled + int(count) > budget:
            parts.append(slice(begin, place))
            begin, filled = place, 0
        filled += int(count)
    return [*parts, slice(begin, len(tokens))]


def compute_logits(network: Any, batch: Part, device: str) -> Tensor:
    """The logits of packed windows: of each window, of each token, or of each word of a target."""
    logits: Tensor = _forward(network, batch, device).logits
    return logits


def compute_output(network: Any, batch: Part, device: str, objective: Objective) -> NetworkOutput:
    """What an objective gets: packed windows through the network, and the last layer where it needs that."""
    if not objective.needs_hidden:
        return NetworkOutput(logits=_forward(network, batch, device).logits.float())
    result = _forward(network, batch, device, whole=True)
    table = network.stack.embed.token.weight
    return NetworkOutput(logits=result.logits.float(), hidden=result.last, token_table=table)


def _forward(network: Any, batch: Part, device: str, *, whole: bool = False) -> Any:
    ids, segments, lengths, target_ids, target_lengths = (
        None if array is None else torch.as_tensor(array, device=device)
        for array in (batch.ids, batch.segments, batch.lengths, batch.target_ids, batch.target_lengths)
    )
    kernel = dropout_attention if torch.device(device).type == "cpu" else fused
    return network(
        ids,
        None,
        segments,
        target_ids,
        lengths=lengths,
        target_lengths=target_lengths,
        kernel=kernel,
        whole=whole,
    )


def score_weights(
    state: TrainingState, score: Callable[[], float] | None, epoch: int, average: int, *, chooses: bool
) -> tuple[float, bool] | None:
    """Judge the mean of the last few epochs, and keep it if it is the best, or in any case: its score, and whether."""
    state.network.eval()
    if average > 1:
        state.keep_recent(epoch, average)
    with state.use_averaged_weights():
        if score is None:
            if average > 1:
                state.keep_best()
            return None
        value = float(score())
        better = state.record_score(value, epoch)
        if not chooses:
            state.keep_best()
        return value, better and chooses


def _is_out_of_patience(state: TrainingState, settings: TrainSettings) -> bool:
    return settings.patience is not None and state.progress.waited >= settings.patience
