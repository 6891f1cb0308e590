"""Recommend a method: the cheapest that is at most a margin worse than the best, with the reason."""

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

MAX_MARGIN = 1e9
MAX_REASON_LENGTH = 300  # in characters
ROUNDING_ERROR = 1e-9  # a difference equal to the margin does not count as within it
SIMILAR_COST_FACTOR = 1.5  # costs within this factor are reported as about equal


def check_margin(margin: Any) -> float | None:
    """Return a valid margin as a float, or None; raise InputError otherwise."""
    if margin is None:
        return None
    is_number = isinstance(margin, Real) and not isinstance(margin, bool)
    if not (is_number and 0 <= margin <= MAX_MARGIN):
        expected = f"a number from 0 to {MAX_MARGIN:g}, in units of the metric"
        raise InputError(f"margin must be {expected}; got {to_printable(margin, 40)!r}.")
    return float(margin)


def compare_results(
    results: Sequence[MethodResult], answers: Mapping[str, Answers], comparison: Comparison
) -> tuple[MethodResult, ...]:
    """Add to each measured result, except the best, its difference to the best."""
    best = find_best(results, comparison.metric).method
    return tuple(
        replace(result, difference=measure_difference(answers[result.method], answers[best], comparison))
        if result.left_out is None and result.method != best
        else result
        for result in results
    )


def find_best(results: Sequence[MethodResult], metric: str) -> MethodResult:
    """Return the result with the best score; the cheapest in case of a tie."""
    sign = -1 if metric in LOWER_IS_BETTER else 1
    defined = [result for result in results if result.value is not None]
    if not defined:
        reasons = "; ".join(
            result.left_out or f"{result.method}: {metric} is not defined on these rows" for result in results
        )
        raise InputError(f"No method could be measured. {reasons}")
    return max(defined, key=lambda result: sign * (result.value or 0.0))


def recommend_method(results: Sequence[MethodResult], comparison: Comparison) -> tuple[str, str]:
    """Return the cheapest method that is at most the margin worse than the best, else the best, with the reason.

    A baseline is recommended only if no method is better.
    """
    best = find_best(results, comparison.metric)
    measured = [result for result in results if result.value is not None]
    cheaper = measured[: measured.index(best)]
    row_text = f"on {len(comparison.targets):,} {comparison.part} rows"
    score = f"{comparison.metric} {best.value:.3f}"
    if len(measured) == 1:
        return best.method, f"{best.method}: {score} {row_text}; it is the only measured method."
    if METHODS[best.method].is_baseline:
        return best.method, f"{best.method}: {score} {row_text}; no method that reads the text is better."
    candidates = [result for result in cheaper if not METHODS[result.method].is_baseline]
    doubt = _describe_baseline_doubt(measured, comparison)
    recommended = next(
        (
            result
            for result in candidates
            if _loss_interval(result, comparison)[1] < comparison.allowed_margin - ROUNDING_ERROR
        ),
        None,
    )
    if recommended is not None:
        context = f"({best.method} {best.value:.3f}, {_format_difference(recommended.difference)})"
        cost = f"{_describe_ratio(recommended.training_seconds, best.training_seconds, 'training time')} and "
        cost += _describe_ratio(recommended.latency_ms, best.latency_ms, "latency")
        claim = f"{comparison.metric} {recommended.value:.3f} {row_text} is at most {comparison.allowed_margin:.3g} "
        claim += f"worse than the best {context}"
        return recommended.method, f"{recommended.method}: {claim}, at {cost}.{doubt}"
    undecided = next((result for result in candidates if _loss_interval(result, comparison)[0] <= 0), None)
    better = (
        result
        for result in measured[len(cheaper) + 1 :]
        if _loss_interval(result, comparison)[0] < -comparison.allowed_margin
    )
    if undecided is not None or doubt:
        doubt = doubt or _describe_doubt(undecided, comparison, "as good")
        return best.method, f"{best.method}: {score} is the best {row_text}.{doubt}"
    doubt = _describe_doubt(next(better, None), comparison, "better")
    if not cheaper:
        return best.method, f"{best.method}: {score} {row_text} is the best, and it is also the cheapest method.{doubt}"
    runner_up = find_best(cheaper, comparison.metric)
    context = f"(the nearest is {runner_up.method} {runner_up.value:.3f}, {_format_difference(runner_up.difference)})"
    comparison_text = f"{score} is the best, and every cheaper method is worse {context} {row_text}"
    return best.method, f"{best.method}: {comparison_text}.{doubt}"


def _loss_interval(result: MethodResult, comparison: Comparison) -> tuple[float, float]:
    """Return the interval of how much worse than the best a method is, widened to the resolution of the rows."""
    difference = result.difference
    if difference is None or difference.difference is None or difference.low is None or difference.high is None:
        return -math.inf, math.inf
    sign = 1 if comparison.metric in LOWER_IS_BETTER else -1
    low, high = sorted((sign * difference.low, sign * difference.high))
    loss = sign * difference.difference
    return min(low, loss - comparison.resolution), max(high, loss + comparison.resolution)


def _describe_doubt(result: MethodResult | None, comparison: Comparison, verdict: str) -> str:
    """Describe which differences the rows are too few to resolve."""
    if result is None:
        return ""
    low, high = _loss_interval(result, comparison)
    resolution = (
        f"resolve differences below {(high - low) / 2:.2g}" if math.isfinite(high - low) else "tell methods apart"
    )
    name = f"the cheaper {result.method}" if verdict == "as good" else result.method
    return f" These rows are too few to {resolution}, so {name} ({result.value:.3f}) may be {verdict}."


def _describe_baseline_doubt(measured: Sequence[MethodResult], comparison: Comparison) -> str:
    """Describe the doubt if the best is not clearly better than a baseline that ignores the text."""
    baseline = next((result for result in measured if METHODS[result.method].is_baseline), None)
    if baseline is None or _loss_interval(baseline, comparison)[0] > 0:
        return ""
    context = f"({baseline.value:.3f}, {_format_difference(baseline.difference)})"
    return f" The best is not clearly better than {baseline.method} {context}, which ignores the text."


def describe_missing_methods(results: Sequence[MethodResult]) -> tuple[tuple[str, ...], str | None]:
    """Return the often best methods that were left out, and a caveat on these and on methods with fewer epochs."""
    missing = [result for result in results if METHODS[result.method].is_often_best and result.left_out is not None]
    sentences = [
        f"Not tried: {result.method} ({_describe_omission(result)}); it is often the best method." for result in missing
    ]
    sentences += [
        f"{result.method} was trained for {result.epochs} of {result.planned_epochs} epochs to fit the budget; all "
        f"epochs take about {format_duration(result.needs_seconds or 0.0)}: "
        f"rerun with {setting('budget', result.needs_budget)}."
        for result in results
        if result.epochs is not None and result.left_out is None
    ]
    return tuple(result.method for result in missing), " ".join(sentences) or None


def _describe_omission(result: MethodResult) -> str:
    """Describe why a method was left out, without its name."""
    if result.needs_budget is None:
        reason = (result.left_out or "").removeprefix(result.method).lstrip(": ")
        return to_printable(reason, MAX_REASON_LENGTH).rstrip(".")
    requirement = (
        "the budget was used up"
        if result.needs_seconds is None
        else f"needs about {format_duration(result.needs_seconds)}"
    )
    return f"{requirement}; rerun with {setting('budget', result.needs_budget)}"


def _format_difference(difference: Difference | None) -> str:
    if difference is None or difference.difference is None:
        return "difference not defined"
    if difference.low is None or difference.high is None:
        return f"difference {difference.difference:.3f}"
    return f"difference {difference.difference:.3f}, {difference.low:.3f} to {difference.high:.3f}"


def _describe_ratio(cost: float | None, best_cost: float | None, cost_name: str) -> str:
    """Describe a cost relative to the best method, such as "1/60 of its training time" or "about its latency"."""
    if not cost or not best_cost:
        return f"an unknown fraction of its {cost_name}"
    ratio = best_cost / cost
    if 1 / SIMILAR_COST_FACTOR < ratio < SIMILAR_COST_FACTOR:
        return f"about its {cost_name}"
    if ratio < 1:
        return f"{1 / ratio:.2g} times its {cost_name}"
    return f"1/{float(f'{ratio:.2g}'):,g} of its {cost_name}"
