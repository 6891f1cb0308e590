"""Which rung to take: the cheapest that is shown to be at most a margin worse than the best, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.errors import InputError
from clearhead.evaluate.difference import Comparison, Difference, measure_difference
from clearhead.files import to_printable
from clearhead.jobs.plan import LOWER_IS_BETTER
from clearhead.ladder.methods import METHODS, MethodResult, format_duration
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_MARGIN = 1e9  # margin
MAX_REASON_LENGTH = 300  # characters of a reason
ROUNDING_ERROR = 1e-9  # a difference that is the margin is not within it, whatever the last bits are
SIMILAR_COST_FACTOR = 1.5  # costs that differ by less than this factor are about the same


def check_margin(margin: Any) -> float | None:
    """A margin that can be, or one sentence; None stays None."""
    if margin is None:
        return None
    is_number = isinstance(margin, Real) and not isinstance(margin, bool)
    if not (is_number and 0 <= margin <= MAX_MARGIN):
        expected = f"a number from 0 to {MAX_MARGIN:g}, in units of the metric"
        raise InputError(f"margin must be {expected}; got {to_printable(margin, 40)!r}.")
    return float(margin)


def compare_results(
    rungs: Sequence[MethodResult], answers: Mapping[str, Answers], asked: Comparison
) -> tuple[MethodResult, ...]:
    """Every measured rung with its difference to the best one, which has none."""
    best = find_best(rungs, asked.metric).method
    return tuple(
        replace(rung, difference=measure_difference(answers[rung.method], answers[best], asked))
        if rung.left_out is None and rung.method != best
        else rung
        for rung in rungs
    )


def find_best(rungs: Sequence[MethodResult], metric: str) -> MethodResult:
    """The measured rung with the best figure; of equal ones the cheapest."""
    sign = -1 if metric in LOWER_IS_BETTER else 1
    known = [rung for rung in rungs if rung.value is not None]
    if not known:
        said = "; ".join(rung.left_out or f"{rung.method}: {metric} is not defined on these rows" for rung in rungs)
        raise InputError(f"No method could be measured. {said}")
    return max(known, key=lambda rung: sign * (rung.value or 0.0))


def recommend_method(rungs: Sequence[MethodResult], asked: Comparison) -> tuple[str, str]:
    """The cheapest rung that is at most the margin worse than the best, else the best, and the reason.

    The floor is the answer only where no method beats it.
    """
    best = find_best(rungs, asked.metric)
    measured = [rung for rung in rungs if rung.value is not None]
    cheaper = measured[: measured.index(best)]
    on = f"on {len(asked.targets):,} {asked.part} rows"
    figure = f"{asked.metric} {best.value:.3f}"
    if len(measured) == 1:
        return best.method, f"{best.method}: {figure} {on}; it is the only method that was measured."
    if METHODS[best.method].is_baseline:
        return best.method, f"{best.method}: {figure} {on}, and no method that reads the text is better."
    readers = [rung for rung in cheaper if not METHODS[rung.method].is_baseline]
    doubt = _describe_baseline_doubt(measured, asked)
    taken = next(
        (rung for rung in readers if _loss_interval(rung, asked)[1] < asked.allowed_margin - ROUNDING_ERROR), None
    )
    if taken is not None:
        beside = f"({best.method} {best.value:.3f}, {_format_difference(taken.difference)})"
        cost = f"{_describe_ratio(taken.training_seconds, best.training_seconds, 'training time')} and "
        cost += _describe_ratio(taken.latency_ms, best.latency_ms, "latency")
        within = (
            f"{asked.metric} {taken.value:.3f} {on} is at most {asked.allowed_margin:.3g} worse than the best {beside}"
        )
        return taken.method, f"{taken.method}: {within}, at {cost}.{doubt}"
    undecided = next((rung for rung in readers if _loss_interval(rung, asked)[0] <= 0), None)
    better = (rung for rung in measured[len(cheaper) + 1 :] if _loss_interval(rung, asked)[0] < -asked.allowed_margin)
    if undecided is not None or doubt:
        doubt = doubt or _describe_doubt(undecided, asked, "as good")
        return best.method, f"{best.method}: {figure} is the best {on}.{doubt}"
    doubt = _describe_doubt(next(better, None), asked, "better")
    if not cheaper:
        return best.method, f"{best.method}: {figure} {on} is the best, and it is the cheapest method, too.{doubt}"
    near = find_best(cheaper, asked.metric)
    beside = f"(the nearest is {near.method} {near.value:.3f}, {_format_difference(near.difference)})"
    worse = f"{figure} is the best, and every cheaper method is worse {beside} {on}"
    return best.method, f"{best.method}: {worse}.{doubt}"


def _loss_interval(rung: MethodResult, asked: Comparison) -> tuple[float, float]:
    """From how much to how much worse than the best a rung is, with what its rows cannot exclude."""
    gap = rung.difference
    if gap is None or gap.difference is None or gap.low is None or gap.high is None:
        return -math.inf, math.inf
    sign = 1 if asked.metric in LOWER_IS_BETTER else -1
    low, high = sorted((sign * gap.low, sign * gap.high))
    middle = sign * gap.difference
    return min(low, middle - asked.resolution), max(high, middle + asked.resolution)


def _describe_doubt(rung: MethodResult | None, asked: Comparison, verdict: str) -> str:
    """A sentence about what the rows are too few for."""
    if rung is None:
        return ""
    low, high = _loss_interval(rung, asked)
    apart = f"differences below {(high - low) / 2:.2g}" if math.isfinite(high - low) else "methods apart"
    name = f"the cheaper {rung.method}" if verdict == "as good" else rung.method
    return f" These rows are too few to tell {apart}, so {name} ({rung.value:.3f}) may be {verdict}."


def _describe_baseline_doubt(measured: Sequence[MethodResult], asked: Comparison) -> str:
    """A sentence where the best is not clearly better than an answer that does not look at the text."""
    floor = next((rung for rung in measured if METHODS[rung.method].is_baseline), None)
    if floor is None or _loss_interval(floor, asked)[0] > 0:
        return ""
    beside = f"({floor.value:.3f}, {_format_difference(floor.difference)})"
    return f" The best is not clearly better than {floor.method} {beside}, which does not look at the text."


def describe_missing_methods(rungs: Sequence[MethodResult]) -> tuple[tuple[str, ...], str | None]:
    """The methods among the often best that were left out, and a sentence on those and on what was shortened."""
    missing = [rung for rung in rungs if METHODS[rung.method].is_often_best and rung.left_out is not None]
    sentences = [
        f"Not tried: {rung.method} ({_describe_omission(rung)}); it is often the best method." for rung in missing
    ]
    sentences += [
        f"{rung.method} was trained for {rung.epochs} of {rung.planned_epochs} epochs to fit the budget; all of them "
        f"take about {format_duration(rung.needs_seconds or 0.0)}: rerun with {setting('budget', rung.needs_budget)}."
        for rung in rungs
        if rung.epochs is not None and rung.left_out is None
    ]
    return tuple(rung.method for rung in missing), " ".join(sentences) or None


def _describe_omission(rung: MethodResult) -> str:
    """Why a method was left out, without its name."""
    if rung.needs_budget is None:
        reason = (rung.left_out or "").removeprefix(rung.method).lstrip(": ")
        return to_printable(reason, MAX_REASON_LENGTH).rstrip(".")
    needs = "no time was left" if rung.needs_seconds is None else f"needs about {format_duration(rung.needs_seconds)}"
    return f"{needs}; rerun with {setting('budget', rung.needs_budget)}"


def _format_difference(gap: Difference | None) -> str:
    if gap is None or gap.difference is None:
        return "difference not defined"
    if gap.low is None or gap.high is None:
        return f"difference {gap.difference:.3f}"
    return f"difference {gap.difference:.3f}, {gap.low:.3f} to {gap.high:.3f}"


def _describe_ratio(mine: float | None, other: float | None, of: str) -> str:
    """1/60 of its training time, about its latency, 2.1 times its latency."""
    if not mine or not other:
        return f"an unknown share of its {of}"
    times = other / mine
    if 1 / SIMILAR_COST_FACTOR < times < SIMILAR_COST_FACTOR:
        return f"about its {of}"
    if times < 1:
        return f"{1 / times:.2g} times its {of}"
    return f"1/{float(f'{times:.2g}'):,g} of its {of}"
