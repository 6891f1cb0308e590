"""The model that a run starts from: as a network with the head of the task, or as the encoder alone."""

from __future__ import annotations

from clearhead.jobs.events import RunEvents
from clearhead.jobs.machine import computes_alone
from clearhead.jobs.plan import NETWORK, RunPlan
from clearhead.jobs.profile import DatasetProfile
from clearhead.model import Model
from clearhead.model.loading import load
from clearhead.train.gpt_inputs import check_next_words, read_with_marks


class StartModel:
    """Loads the model of a run: a new network for each seed, and one encoder for all that read frozen features."""

    def __init__(self, profile: DatasetProfile, events: RunEvents) -> None:
        self._profile, self._events = profile, events
        self._encoder: Model | None = None

    def load(self, plan: RunPlan, seed: int) -> Model | None:
        """What the method of a plan starts from; None: it needs no model."""
        if computes_alone(plan):
            return None
        return self.network(plan, seed) if plan.method in NETWORK else self.encoder(plan)

    def network(self, plan: RunPlan, seed: int) -> Model:
        """A fresh copy of the model, with the head that the task needs."""
        task = self._profile.task
        model = load(
            plan.model,
            "core",
            plan.device,
            head=task.head.kind,
            labels=task.head.outputs(self._profile.space),
            seed=seed,
            fresh=True,
            head_pooling=plan.head_pooling,
            progress=self._events.download,
        )
        check_next_words(model, plan)
        return read_with_marks(model, seed)

    def encoder(self, plan: RunPlan, untrained: Model | None = None) -> Model:
        """The encoder without a head; it shares the weights of an `untrained` network where there is one."""
        if self._encoder is None:
            self._encoder = load(
                plan.model,
                device=plan.device,
                head=None,
                threads=plan.threads,
                weights=untrained,
                progress=self._events.download,
            )
        return self._encoder
