"""How long a method would take here: a few rows are really trained on, and the rest is arithmetic."""

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

TRIAL_ROWS = 128  # training rows that are tried out
WARMUP_ROWS = 8  # of them, before the clock runs
TIMED_STEPS = 3  # steps that are timed, after one that warms up
FORWARD_SPEEDUP = 3  # a pass without the way back is so many times as fast as a training step
LAYER_SWEEP_FITS = 19  # fits in place of one, where all layers are tried


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """How long a method would take here as planned, and how much of that is one epoch."""

    seconds: float
    epoch_seconds: float = 0.0  # of one epoch, with the dev rows after it
    settings: TrainSettings | None = None  # of a network: what it would train with, as many epochs as planned

    @property
    def epochs(self) -> int:
        """How many are planned; 0: it has none."""
        return 0 if self.settings is None else self.settings.epochs

    def seconds_of(self, epochs: int) -> float:
        """The same with fewer epochs."""
        return self.seconds - (self.epochs - epochs) * self.epoch_seconds

    def epochs_within(self, seconds: float) -> int:
        """How many of the planned epochs fit into a time; 0: not one."""
        return next((epochs for epochs in range(self.epochs, 0, -1) if self.seconds_of(epochs) <= seconds), 0)


def estimate_features(plan: RunPlan, prepared: PreparedData) -> Estimate:
    """Of frozen features and a linear model: a pass over some rows and a fit to them, for all rows."""
    import numpy as np

    model = load(plan.model, device=plan.device, head=None)
    sample = _sample_rows(model, prepared)
    compute_table_features(model, sample.select(np.arange(min(WARMUP_ROWS, len(sample)))))
    begun = time.perf_counter()
    vectors = compute_table_features(model, sample)
    speed = float(sample.row_tokens.sum()) / (time.perf_counter() - begun)
    begun = time.perf_counter()
    with suppress(ClearheadError):  # rows that are fitted otherwise, or too few of them
        fit_linear(vectors, sample.targets, prepared.space, strength=plan.C)
    fit = (time.perf_counter() - begun) * len(prepared.parts["train"]) / len(sample)
    reading = sum(_count_tokens(model, prepared).values()) / speed
    return Estimate(seconds=reading + fit * (1 if plan.layers is None else LAYER_SWEEP_FITS))


def estimate_network(plan: RunPlan, prepared: PreparedData) -> Estimate:
    """Of a fine-tuning or of a new head: a few real steps, then all epochs with the dev rows after each."""
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
    resolve_threads(plan.threads, settings, model.shape)  # as many as the run would use
    objective = objective_for(task.objective(space), settings)
    speed, _ = run_trial(
        model.use_core().network, _sample_rows(model, prepared), settings, objective, steps=TIMED_STEPS
    )
    tokens = _count_tokens(model, prepared)
    forward = speed if settings.freeze_encoder else FORWARD_SPEEDUP * speed
    dev, test = tokens.get("dev", 0.0) / forward, tokens.get("test", 0.0) / forward
    epoch = tokens["train"] / speed + dev
    seconds = plan.seeds * (epoch * settings.epochs + dev + test)
    return Estimate(seconds=seconds, epoch_seconds=plan.seeds * epoch, settings=settings)


def _sample_rows(model: Model, prepared: PreparedData) -> PackedDataset:
    """Training rows from all over the file."""
    import numpy as np

    train = encode_part(model, prepared.parts["train"])
    return train.select(np.unique(np.linspace(0, len(train) - 1, TRIAL_ROWS).round().astype(int)))


def _count_tokens(model: Model, prepared: PreparedData) -> dict[str, float]:
    """How many tokens each part has."""
    return {name: float(encode_part(model, part).row_tokens.sum()) for name, part in prepared.parts.items()}
