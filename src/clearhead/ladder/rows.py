"""The rows of a ladder: in the parts and with the tokens that every method must see."""

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
    seen: DatasetProfile, plans: Mapping[str, RunPlan], events: RunEvents
) -> tuple[PreparedData, str | None]:
    """The rows in their parts, as every rung must see them, and why there is no model where there is none."""
    with suppress(ImportError), passive_waiting():
        import sklearn.linear_model  # noqa: F401  # so that no method's time is that of an import

    plan = next((plan for method, plan in plans.items() if METHODS[method].uses_network), None)
    if plan is None:
        plan = next(iter(plans.values()))
        return prepare_data(seen, plan, None, _length_policy(plan, None)), None
    try:
        require_torch("Training a network")
        from clearhead.training.threads import use_threads

        use_threads(plan.threads)
        model = load(plan.model, device=plan.device, head=None, progress=events.download)
        tokenizer, most = model.tokenizer, model.max_length()
    except ClearheadError as error:
        return prepare_data(seen, plan, None, _length_policy(plan, None)), str(error)
    length = min(plan.max_length or most or 0, most or plan.max_length or 0) or None
    return prepare_data(seen, plan, tokenizer, _length_policy(plan, length)), None


def _length_policy(plan: RunPlan, max_length: int | None) -> LengthPolicy:
    """How rows are read that are longer than the model can."""
    return LengthPolicy(
        max_length=max_length,
        long=plan.long,
        stride=plan.stride or 0,
        max_answer=plan.max_answer,
        max_tokens=plan.max_tokens,
    )
