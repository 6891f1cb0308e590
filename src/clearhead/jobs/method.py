"""Inputs and outputs of training methods: the fitted model, and the layers that were compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.passport import TrainingRecord
from clearhead.jobs.events import NO_EVENTS, RunEvents
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.prepare import PartRows, PreparedData
from clearhead.model import Model
from clearhead.progress import Progress, for_stage
from clearhead.training.settings import TrainSettings

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class FittedMethod:
    """A fitted model: computes logits of any part, saves itself, and has notes on the fit."""

    logits: Callable[[PartRows], Any]
    save: Callable[[Path, TrainingRecord], None]
    notes: tuple[str, ...] = ()
    steps: int = 0
    sweep: LayerSweep | None = None  # over layers, if requested
    per_word: bool = False  # the sweep chose only the layer, because words are not pooled
    model: Model | None = None  # whose weights `save` writes

    def layer_choice(self, plan: RunPlan) -> tuple[str | int | None, str | None]:
        """Return layer and pooling of the features, from the sweep or the plan."""
        if self.sweep is None:
            return plan.layer, plan.pooling
        return self.sweep.best.layer, None if self.per_word else self.sweep.best.pooling


@dataclass(frozen=True, kw_only=True)
class FitInputs:
    """Everything a method needs."""

    prepared: PreparedData
    plan: RunPlan
    settings: TrainSettings
    folder: Path  # for state and log
    model: Model | None = None
    events: RunEvents = NO_EVENTS
    finish: bool = False  # keep the state of a stopped network without further training

    def stage_progress(self, stage: str) -> Progress:
        """Report the stages of a function as one stage of the run."""
        return for_stage(self.events.progress, stage)


@dataclass(frozen=True, kw_only=True)
class LayerChoice:
    """One kind of features: layers by name, and the pooling of their tokens."""

    layer: str
    pooling: str

    def __str__(self) -> str:
        return f"{self.layer}, {self.pooling}"


@dataclass(frozen=True, kw_only=True)
class LayerScore:
    """The score of one choice of layer and pooling."""

    layer: str
    pooling: str
    score: float | None  # mean of the main metric over the folds; None if undefined
    spread: float | None  # standard deviation over the folds
    seconds: float  # fitting and evaluation


@dataclass(frozen=True, kw_only=True)
class LayerSweep:
    """All choices in order of evaluation, the best one, and its features of all training rows."""

    scores: tuple[LayerScore, ...]
    best: LayerChoice
    features: Array
    notes: tuple[str, ...]
