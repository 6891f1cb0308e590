"""Prepare the rows of a ladder: parts and tokens that are the same for all methods."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from clearhead.data.row_codec import LengthPolicy
from clearhead.errors import ClearheadError
from clearhead.jobs.events import RunEvents
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.prepare import PreparedData, prepare_data
from clearhead.jobs.profile import DatasetProfile
from clearhead.ladder.methods import METHODS
from clearhead.machine.threads import passive_waiting
from clearhead.model.loading import load, require_torch


def prepare_rows(
    profile: DatasetProfile, plans: Mapping[str, RunPlan], events: RunEvents
) -> tuple[PreparedData, str | None]:
    """Prepare rows for all methods; also return why no pretrained model is available, or None."""
    with suppress(ImportError), passive_waiting():
        import sklearn.linear_model  # noqa: F401  # so that the time of a method does not include this import

    plan = next((plan for method, plan in plans.items() if METHODS[method].uses_network), None)
    if plan is None:
        plan = next(iter(plans.values()))
        return prepare_data(profile, plan, None, _length_policy(plan, None)), None
    try:
        require_torch("Training a network")
        from clearhead.training.threads import use_threads

        use_threads(plan.threads)
        model = load(plan.model, device=plan.device, head=None, progress=events.download)
        tokenizer, model_max_length = model.tokenizer, model.max_length()
    except ClearheadError as error:
        return prepare_data(profile, plan, None, _length_policy(plan, None)), str(error)
    max_length = min(plan.max_length or model_max_length or 0, model_max_length or plan.max_length or 0) or None
    return prepare_data(profile, plan, tokenizer, _length_policy(plan, max_length)), None


def _length_policy(plan: RunPlan, max_length: int | None) -> LengthPolicy:
    """Return the handling of rows that exceed the maximum length."""
    return LengthPolicy(
        max_length=max_length,
        long=plan.long,
        stride=plan.stride or 0,
        max_answer=plan.max_answer,
        max_tokens=plan.max_tokens,
    )
