"""Estimate how long a method takes on this machine, from a trial on a few rows."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clearhead.classic import fit_linear
from clearhead.errors import ClearheadError
from clearhead.jobs.defaults import choose_settings, resolve_threads
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.prepare import PreparedData, encode_part
from clearhead.model.loading import load
from clearhead.predict.frozen_features import compute_table_features
from clearhead.training.settings import TrainSettings

if TYPE_CHECKING:
    from clearhead.model import Model
    from clearhead.tasks.packed import PackedDataset

TRIAL_ROWS = 128  # training rows of a trial
WARMUP_ROWS = 8  # of them, for warmup
TIMED_STEPS = 3  # timed training steps, after one warmup step
FORWARD_SPEEDUP = 3  # speed of a forward pass relative to a training step
LAYER_SWEEP_FITS = 19  # linear fits if all layers are compared, instead of one


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Estimated time of a method as planned, in total and per epoch."""

    seconds: float
    epoch_seconds: float = 0.0  # including the evaluation on dev rows
    settings: TrainSettings | None = None  # resolved settings of a network

    @property
    def epochs(self) -> int:
        """Planned epochs; 0 for methods without epochs."""
        return 0 if self.settings is None else self.settings.epochs

    def seconds_of(self, epochs: int) -> float:
        """Estimate the time for fewer epochs."""
        return self.seconds - (self.epochs - epochs) * self.epoch_seconds

    def epochs_within(self, seconds: float) -> int:
        """Return how many of the planned epochs fit into `seconds`."""
        return next((epochs for epochs in range(self.epochs, 0, -1) if self.seconds_of(epochs) <= seconds), 0)


def estimate_features(plan: RunPlan, prepared: PreparedData) -> Estimate:
    """Estimate frozen features with a linear model, from a forward pass and a fit on sample rows."""
    import numpy as np

    model = load(plan.model, device=plan.device, head=None)
    sample = _sample_rows(model, prepared)
    compute_table_features(model, sample.select(np.arange(min(WARMUP_ROWS, len(sample)))))
    start = time.perf_counter()
    vectors = compute_table_features(model, sample)
    tokens_per_second = float(sample.row_tokens.sum()) / (time.perf_counter() - start)
    start = time.perf_counter()
    with suppress(ClearheadError):  # sample rows that cannot be fitted alone
        fit_linear(vectors, sample.targets, prepared.space, strength=plan.C)
    fit_seconds = (time.perf_counter() - start) * len(prepared.parts["train"]) / len(sample)
    forward_seconds = sum(_count_tokens(model, prepared).values()) / tokens_per_second
    return Estimate(seconds=forward_seconds + fit_seconds * (1 if plan.layers is None else LAYER_SWEEP_FITS))


def estimate_network(plan: RunPlan, prepared: PreparedData) -> Estimate:
    """Estimate fine-tuning or a new head, from a few training steps; includes dev evaluation after each epoch."""
    from clearhead.training.objectives import objective_for
    from clearhead.training.trial import run_trial

    task, space = prepared.task, prepared.space
    model = load(
        plan.model,
        "core",
        plan.device,
        head=task.head.kind,
        labels=task.head.output_names(space),
        fresh=True,
        head_pooling=plan.head_pooling,
    )
    settings = choose_settings(plan, task, space, len(prepared.parts["train"]), model.shape)
    resolve_threads(plan.threads, settings, model.shape)  # use the thread count of the run
    objective = objective_for(task.objective(space), settings)
    tokens_per_second, _ = run_trial(
        model.use_core().network, _sample_rows(model, prepared), settings, objective, steps=TIMED_STEPS
    )
    tokens = _count_tokens(model, prepared)
    forward_tokens_per_second = tokens_per_second if settings.freeze_encoder else FORWARD_SPEEDUP * tokens_per_second
    dev_seconds, test_seconds = (
        tokens.get("dev", 0.0) / forward_tokens_per_second,
        tokens.get("test", 0.0) / forward_tokens_per_second,
    )
    epoch_seconds = tokens["train"] / tokens_per_second + dev_seconds
    seconds = plan.seeds * (epoch_seconds * settings.epochs + dev_seconds + test_seconds)
    return Estimate(seconds=seconds, epoch_seconds=plan.seeds * epoch_seconds, settings=settings)


def _sample_rows(model: Model, prepared: PreparedData) -> PackedDataset:
    """Sample training rows evenly."""
    import numpy as np

    train = encode_part(model, prepared.parts["train"])
    return train.select(np.unique(np.linspace(0, len(train) - 1, TRIAL_ROWS).round().astype(int)))


def _count_tokens(model: Model, prepared: PreparedData) -> dict[str, float]:
    """Count the tokens of each part."""
    return {name: float(encode_part(model, part).row_tokens.sum()) for name, part in prepared.parts.items()}
