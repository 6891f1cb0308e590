"""The time budget of a ladder: how long each method takes, and what fits into the remaining time."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from clearhead.caller import setting
from clearhead.jobs.events import RunEvents
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.prepare import PreparedData
from clearhead.ladder.estimates import Estimate
from clearhead.ladder.methods import METHODS, MethodResult, format_duration, suggest_budget

MIN_EPOCHS_DIVISOR = 3  # at least 1/3 of the planned epochs must fit: fewer would measure the budget, not the method
log = logging.getLogger("clearhead")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The time budget of one ladder call."""

    seconds: float
    started_at: float  # time.perf_counter()
    prepared: PreparedData
    events: RunEvents
    estimates: dict[str, Estimate] = field(default_factory=dict)  # by method

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the start of the ladder."""
        return time.perf_counter() - self.started_at

    @property
    def seconds_left(self) -> float:
        """Seconds until the budget is used up."""
        return self.seconds - self.elapsed_seconds

    def estimate(self, method: str, plan: RunPlan) -> Estimate:
        """Estimate how long a method takes, with one short trial; 0 seconds for methods without an estimate."""
        measure = METHODS[method].estimate
        if measure is None:
            return Estimate(seconds=0.0)
        if method not in self.estimates:
            self.events.progress(f"{method}: estimating the training time", 0, None)
            self.estimates[method] = measure(plan, self.prepared)
        return self.estimates[method]


def fit_into_budget(
    budget: Budget, method: str, plan: RunPlan, later_plans: Mapping[str, RunPlan] | None = None
) -> tuple[RunPlan, MethodResult]:
    """Return a plan that fits into the remaining time, and a result with its reduced epochs or the reason for omission.

    `later_plans` are the plans of often better methods that follow: time is reserved for their minimum of epochs.
    """
    if budget.seconds_left <= 0 and method not in budget.estimates:
        suggested_budget = suggest_budget(2 * budget.elapsed_seconds)
        rerun = f"rerun with {setting('budget', suggested_budget)}"
        reason = f"{method}: the budget of {format_duration(budget.seconds)} is used up; {rerun}"
        return plan, MethodResult(method=method, left_out=reason, needs_budget=suggested_budget)
    estimate = budget.estimate(method, plan)
    seconds_left = budget.seconds_left  # before the trials of later methods, which are not charged to this one
    later_estimates = _estimate_later_methods(budget, later_plans or {}) if estimate.seconds > 0 else {}
    reserved = sum(
        later.seconds_of(min_epochs(later, (later_plans or {})[name])) for name, later in later_estimates.items()
    )
    if reserved > seconds_left:  # later methods do not fit anyway, so nothing is reserved
        reserved, later_estimates = 0.0, {}
    if estimate.seconds <= seconds_left - reserved:
        return plan, MethodResult(method=method)
    total_seconds = estimate.seconds + sum(later.seconds for later in later_estimates.values())
    suggested_budget = suggest_budget(budget.elapsed_seconds + total_seconds)
    result = MethodResult(method=method, needs_seconds=round(estimate.seconds, 1), needs_budget=suggested_budget)
    epochs = estimate.epochs_within(seconds_left - reserved)
    if METHODS[method].is_often_best and estimate.settings and epochs >= min_epochs(estimate, plan):
        shortened_plan = replace(plan, auto_epochs=False, settings=replace(estimate.settings, epochs=epochs))
        return shortened_plan, replace(result, epochs=epochs, planned_epochs=estimate.epochs)
    time_left = f"with {format_duration(max(seconds_left, 0.0))} left"
    if later_estimates:
        time_left += f" ({format_duration(reserved)} reserved for {' and '.join(later_estimates)})"
    rerun = f"rerun with {setting('budget', suggested_budget)}"
    reason = f"{method} would take about {format_duration(estimate.seconds)}, {time_left}; {rerun}"
    return plan, replace(result, left_out=reason)


def min_epochs(estimate: Estimate, plan: RunPlan) -> int:
    """Return the minimum of epochs for a meaningful result; a number set by the user is not reduced."""
    return -(-estimate.epochs // MIN_EPOCHS_DIVISOR) if plan.auto_epochs else estimate.epochs


def _estimate_later_methods(budget: Budget, plans: Mapping[str, RunPlan]) -> dict[str, Estimate]:
    """Estimate later methods; a failing trial is ignored here."""
    estimates = {}
    for method, plan in plans.items():
        try:
            estimates[method] = budget.estimate(method, plan)
        except Exception:  # reported when the method is trained
            log.debug("%s: the time could not be estimated", method, exc_info=True)
    return estimates
