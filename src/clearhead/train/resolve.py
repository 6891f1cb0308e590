"""Resolution of a plan: every open choice is made once, from the model and the rows.

`resolve_inputs` resolves how rows are read, once the model is known. `resolve_plan` resolves the method, the epochs and
the learning rate, once the rows are known, and its plan is stored in run.json. What a method chooses later, such as the
best layer, is part of its result.
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
from clearhead.train.baselines import list_features_plan_changes
from clearhead.train.gpt_inputs import resolve_both_orders
from clearhead.train.method_choice import starts_with_features


@dataclass(frozen=True, kw_only=True)
class ResolvedInputs:
    """How a run reads its rows, resolved once the model is loaded."""

    task: Task  # wrapped if two texts are read in both orders
    plan_changes: dict[str, Any]  # fields of the plan: threads, settings, head_pooling, both_orders, max_length, stride
    length_policy: LengthPolicy  # for texts longer than the model's maximum length

    @property
    def threads(self) -> int | None:
        """The number of threads of the run."""
        threads: int | None = self.plan_changes["threads"]
        return threads


def resolve_inputs(plan: RunPlan, compute: Compute, profile: DatasetProfile, model: Model | None) -> ResolvedInputs:
    """Resolve threads, head pooling, the orders of two texts, and lengths."""
    head_pooling, threads = plan.head_pooling, compute.threads
    if model is not None and (model_pooling := model.shape.head_pooling) in ("first", "mean"):
        head_pooling = model_pooling
    if plan.method in NETWORK_METHODS:
        threads = resolve_threads(threads, compute.settings, None if model is None else model.shape)
    reads_both_orders = resolve_both_orders(plan, profile.task, model, has_two_texts=profile.columns.text_b is not None)
    task = read_in_both_orders(profile.task) if reads_both_orders else profile.task
    max_length, stride = resolve_lengths(plan, task, model)
    length_policy = LengthPolicy(
        max_length=None if model is None else check_length(max_length, stride, model, plan.model),
        long=plan.long,
        stride=stride,
        max_answer=plan.max_answer,
        max_tokens=plan.max_tokens,
    )
    plan_changes = {
        "threads": threads,
        "settings": compute.settings,
        "head_pooling": head_pooling,
        "both_orders": reads_both_orders,
        "max_length": max_length,
        "stride": stride,
    }
    return ResolvedInputs(task=task, plan_changes=plan_changes, length_policy=length_policy)


def resolve_plan(plan: RunPlan, inputs: ResolvedInputs, prepared: PreparedData, model: Model | None) -> RunPlan:
    """Resolve all remaining choices; the resolved plan is stored, and every later step reads it."""
    plan_changes = inputs.plan_changes
    if starts_with_features(prepared, plan, both_orders=bool(plan_changes["both_orders"])):
        plan_changes = plan_changes | list_features_plan_changes(plan_changes["settings"])
    elif model is not None and plan.method in NETWORK_METHODS:
        settings = choose_settings(
            plan,
            prepared.task,
            prepared.space,
            len(prepared.parts["train"]),
            model.shape,
            is_new_head="head.out.weight" in model.fresh,
            settings=plan_changes["settings"],
        )
        plan_changes = plan_changes | {"auto_epochs": False, "auto_rate": False, "settings": settings}
    return replace(plan, **plan_changes)
