"""What was asked becomes what a run does: every choice that was left open is made once, from what the run found out.

`resolve_inputs` follows the model: how rows are read. `resolve_plan` follows the rows: method, epochs and rate. Its
plan is stored in run.json; whatever a method finds out later, such as the best layer, is a part of its result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from clearhead.data.row_codec import LengthPolicy
from clearhead.jobs.defaults import check_length, choose_settings, resolve_lengths, resolve_threads
from clearhead.jobs.machine import Compute
from clearhead.jobs.plan import NETWORK_METHODS, RunPlan
from clearhead.jobs.prepare import PreparedData
from clearhead.jobs.profile import DatasetProfile
from clearhead.model import Model
from clearhead.tasks import Task
from clearhead.tasks.orders import read_in_both_orders
from clearhead.train.baselines import features_plan_changes
from clearhead.train.gpt_inputs import resolve_both_orders
from clearhead.train.method_choice import starts_with_features


@dataclass(frozen=True, kw_only=True)
class ResolvedInputs:
    """How a run reads its rows, which is known once the model is."""

    task: Task  # with both orders of two texts, where they are read
    choices: dict[str, Any]  # of the plan: threads, settings, head_pooling, both_orders, max_length, stride
    length_policy: LengthPolicy  # what is done with texts that are longer than the model

    @property
    def threads(self) -> int | None:
        """How many threads the run computes on."""
        threads: int | None = self.choices["threads"]
        return threads


def resolve_inputs(
    requested: RunPlan, compute: Compute, profile: DatasetProfile, model: Model | None
) -> ResolvedInputs:
    """Threads, what the head reads, orders of two texts and lengths."""
    head_pooling, threads = requested.head_pooling, compute.threads
    if model is not None and (model_pooling := model.shape.head_pooling) in ("first", "mean"):
        head_pooling = model_pooling
    if requested.method in NETWORK_METHODS:
        threads = resolve_threads(threads, compute.settings, None if model is None else model.shape)
    reads_both_orders = resolve_both_orders(
        requested, profile.task, model, has_two_texts=profile.columns.text_b is not None
    )
    task = read_in_both_orders(profile.task) if reads_both_orders else profile.task
    max_length, stride = resolve_lengths(requested, task, model)
    fit = LengthPolicy(
        max_length=None if model is None else check_length(max_length, stride, model, requested.model),
        long=requested.long,
        stride=stride,
        max_answer=requested.max_answer,
        max_tokens=requested.max_tokens,
    )
    choices = {
        "threads": threads,
        "settings": compute.settings,
        "head_pooling": head_pooling,
        "both_orders": reads_both_orders,
        "max_length": max_length,
        "stride": stride,
    }
    return ResolvedInputs(task=task, choices=choices, length_policy=fit)


def resolve_plan(requested: RunPlan, inputs: ResolvedInputs, prepared: PreparedData, model: Model | None) -> RunPlan:
    """The plan of a run, in which nothing is left open: what is stored, and what every later step reads."""
    choices = inputs.choices
    if starts_with_features(prepared, requested, both_orders=bool(choices["both_orders"])):
        choices = choices | features_plan_changes(choices["settings"])
    elif model is not None and requested.method in NETWORK_METHODS:
        settings = choose_settings(
            requested,
            prepared.task,
            prepared.space,
            len(prepared.parts["train"]),
            model.shape,
            is_new_head="head.out.weight" in model.fresh,
            settings=choices["settings"],
        )
        choices = choices | {"auto_epochs": False, "auto_rate": False, "settings": settings}
    return replace(requested, **choices)
