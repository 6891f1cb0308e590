"""What a method is given and what it gives back: a fitted model, and the layers that were tried."""

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
    """A fitted model: logits of any part, a way to disk, and what there is to say about the fit."""

    logits: Callable[[PartRows], Any]
    save: Callable[[Path, TrainingRecord], None]
    notes: tuple[str, ...] = ()
    steps: int = 0
    sweep: LayerSweep | None = None  # of layers, where it was asked for
    per_word: bool = False  # a sweep chose the layer alone, for words are not pooled
    model: Model | None = None  # whose weights `save` writes

    def layer_choice(self, plan: RunPlan) -> tuple[str | int | None, str | None]:
        """Layer and pooling of the features: as the plan has them, or as the sweep found them."""
        if self.sweep is None:
            return plan.layer, plan.pooling
        return self.sweep.best.layer, None if self.per_word else self.sweep.best.pooling


@dataclass(frozen=True, kw_only=True)
class FitInputs:
    """All that a method needs."""

    prepared: PreparedData
    plan: RunPlan
    settings: TrainSettings
    folder: Path  # for its state and log
    model: Model | None = None
    events: RunEvents = NO_EVENTS
    finish: bool = False  # a network that was stopped is taken as it is

    def stage_progress(self, stage: str) -> Progress:
        """Report the stages of a function as one stage of the run."""
        return for_stage(self.events.progress, stage)


@dataclass(frozen=True, kw_only=True)
class LayerChoice:
    """One way to make features: layers by their name, and how their tokens are pooled."""

    layer: str
    pooling: str

    def __str__(self) -> str:
        return f"{self.layer}, {self.pooling}"


@dataclass(frozen=True, kw_only=True)
class LayerScore:
    """How good one choice of layer and pooling is."""

    layer: str
    pooling: str
    score: float | None  # the main metric, on average over the folds; None: not defined on any
    spread: float | None  # its standard deviation over the folds
    seconds: float  # that fitting and judging it took


@dataclass(frozen=True, kw_only=True)
class LayerSweep:
    """All choices in the order they were tried, the best of them, and its features of all training rows."""

    scores: tuple[LayerScore, ...]
    best: LayerChoice
    features: Array
    notes: tuple[str, ...]
