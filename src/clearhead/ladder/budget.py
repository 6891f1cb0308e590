"""The time of a ladder: what each method would take of it, and what fits into the rest."""

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

MIN_EPOCHS_DIVISOR = 3  # one in so many of the planned epochs must fit: fewer would measure the budget, not the method
log = logging.getLogger("clearhead")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The seconds of one call of a ladder."""

    seconds: float
    started_at: float  # by time.perf_counter
    prepared: PreparedData
    events: RunEvents
    estimates: dict[str, Estimate] = field(default_factory=dict)  # of the methods that were tried out

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the ladder was started."""
        return time.perf_counter() - self.started_at

    @property
    def seconds_left(self) -> float:
        """Seconds until the budget is used up."""
        return self.seconds - self.elapsed_seconds

    def estimate(self, method: str, plan: RunPlan) -> Estimate:
        """How long a method takes, tried out once; 0 seconds where that is too little to try out."""
        measure = METHODS[method].estimate
        if measure is None:
            return Estimate(seconds=0.0)
        if method not in self.estimates:
            self.events.progress(f"{method}: trying out how long it takes", 0, None)
            self.estimates[method] = measure(plan, self.prepared)
        return self.estimates[method]


def fit_into_budget(
    budget: Budget, method: str, plan: RunPlan, later: Mapping[str, RunPlan] | None = None
) -> tuple[RunPlan, MethodResult]:
    """The plan that fits into what is left, and a rung that holds how it was shortened, or why it is left out.

    `later` are methods that are worth more and still to be trained: time is kept for the least of each.
    """
    if budget.seconds_left <= 0 and method not in budget.estimates:
        advised = suggest_budget(2 * budget.elapsed_seconds)
        reason = f"{method}: no time is left of {format_duration(budget.seconds)}; {setting('budget', advised)}"
        return plan, MethodResult(method=method, left_out=reason, needs_budget=advised)
    estimate = budget.estimate(method, plan)
    left = budget.seconds_left  # before others are tried out, for which this method cannot be held to account
    waiting = _estimate_later_methods(budget, later or {}) if estimate.seconds > 0 else {}
    kept = sum(other.seconds_of(min_epochs(other, (later or {})[name])) for name, other in waiting.items())
    if kept > left:  # they do not fit in any case, and keep nobody else out
        kept, waiting = 0.0, {}
    if estimate.seconds <= left - kept:
        return plan, MethodResult(method=method)
    together = estimate.seconds + sum(other.seconds for other in waiting.values())
    advised = suggest_budget(budget.elapsed_seconds + together)
    rung = MethodResult(method=method, needs_seconds=round(estimate.seconds, 1), needs_budget=advised)
    epochs = estimate.epochs_within(left - kept)
    if METHODS[method].is_often_best and estimate.settings and epochs >= min_epochs(estimate, plan):
        shorter = replace(plan, auto_epochs=False, settings=replace(estimate.settings, epochs=epochs))
        return shorter, replace(rung, epochs=epochs, planned_epochs=estimate.epochs)
    rest = f"{format_duration(max(left, 0.0))} are left"
    if waiting:
        rest += f", {format_duration(kept)} of them kept for {' and '.join(waiting)}"
    reason = f"{method} would take about {format_duration(estimate.seconds)}, {rest}; {setting('budget', advised)}"
    return plan, replace(rung, left_out=reason)


def min_epochs(estimate: Estimate, plan: RunPlan) -> int:
    """The fewest epochs that still tell what a method is worth; a number that the user set is not changed."""
    return -(-estimate.epochs // MIN_EPOCHS_DIVISOR) if plan.auto_epochs else estimate.epochs


def _estimate_later_methods(budget: Budget, plans: Mapping[str, RunPlan]) -> dict[str, Estimate]:
    """Of methods whose turn comes later; what fails then need not fail now."""
    estimates = {}
    for method, plan in plans.items():
        try:
            estimates[method] = budget.estimate(method, plan)
        except Exception:  # its own turn reports it
            log.debug("%s could not be tried out", method, exc_info=True)
    return estimates
