"""The model that a run starts from: a network with the head of the task, or only the encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clearhead.jobs.events import RunEvents
from clearhead.jobs.machine import runs_without_torch
from clearhead.jobs.plan import NETWORK_METHODS, RunPlan
from clearhead.jobs.profile import DatasetProfile
from clearhead.model import Model
from clearhead.model.loading import load
from clearhead.model.runtime import copy_aligned
from clearhead.train.gpt_inputs import add_marker_tokens, check_lm_weight

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class StartModels:
    """Loads the models of a run: a new network for each seed, and one encoder shared by all frozen features.

    Files are read once. Training changes the weights of a network in place, so the weights of the checkpoint are copied
    first if another network or the encoder needs them.
    """

    def __init__(self, profile: DatasetProfile, events: RunEvents) -> None:
        self._profile, self._events = profile, events
        self._encoder: Model | None = None
        self._checkpoint: Mapping[str, Array] | None = None  # tensors of the files

    def load(self, plan: RunPlan, seed: int) -> Model | None:
        """Load the model that the method of a plan starts from; None if it needs none."""
        if runs_without_torch(plan):
            return None
        return self.network(plan, seed) if plan.method in NETWORK_METHODS else self.encoder(plan)

    def network(self, plan: RunPlan, seed: int) -> Model:
        """Load a new copy of the model with the head of the task."""
        task = self._profile.task
        model = load(
            plan.model,
            "core",
            plan.device,
            head=task.head.kind,
            labels=task.head.output_names(self._profile.space),
            seed=seed,
            fresh=True,
            head_pooling=plan.head_pooling,
            weights=self._checkpoint,
            progress=self._events.download,
        )
        check_lm_weight(model, plan)
        if self._checkpoint is None and self._reuses_checkpoint(plan):
            tensors = model.runner.weights().items()
            self._checkpoint = {name: copy_aligned(array) for name, array in tensors if name not in model.fresh}
        return add_marker_tokens(model, seed)

    def encoder(self, plan: RunPlan) -> Model:
        """Load the encoder without a head, once."""
        if self._encoder is None:
            self._encoder = load(
                plan.model,
                device=plan.device,
                head=None,
                threads=plan.threads,
                weights=self._checkpoint,
                progress=self._events.download,
            )
        return self._encoder

    def _reuses_checkpoint(self, plan: RunPlan) -> bool:
        """Whether other networks or baselines start from the checkpoint."""
        return plan.seeds > 1 or (plan.baselines and "features" in self._profile.task.methods)
