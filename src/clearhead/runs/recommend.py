"""Which rung to take: the cheapest within noise of the best, and why, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.errors import InputError
from clearhead.metrics import paired_test
from clearhead.metrics.measure import BINARY, CLASSIFY, MULTILABEL, PROBS, REGRESS
from clearhead.runs.plan import LOWER_IS_BETTER
from clearhead.runs.rungs import METHODS, Difference, Rung
from clearhead.tasks.task import Answers, Task

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

DRAWS = 2000
KNOWN: Mapping[str, Callable[..., float]] = {**PROBS, **REGRESS, **MULTILABEL, **BINARY, **CLASSIFY}
ALIKE = 1.5  # costs that differ by less than this factor are about the same


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the rungs are compared by, and on which rows."""

    task: Task
    space: LabelSpace
    metric: str
    part: str
    targets: Any


def compared(rungs: Sequence[Rung], answers: Mapping[str, Answers], asked: Asked) -> tuple[Rung, ...]:
    """Every measured rung with its difference to the best one, which has none."""
    best = best_rung(rungs, asked.metric).method
    return tuple(
        replace(rung, difference=difference(answers[rung.method], answers[best], asked))
        if rung.left_out is None and rung.method != best
        else rung
        for rung in rungs
    )


def best_rung(rungs: Sequence[Rung], metric: str) -> Rung:
    """The measured rung with the best figure; of equal ones the cheapest."""
    sign = -1 if metric in LOWER_IS_BETTER else 1
    known = [rung for rung in rungs if rung.value is not None]
    if not known:
        said = "; ".join(rung.left_out or f"{rung.method}: {metric} is not defined on these rows" for rung in rungs)
        raise InputError(f"No method could be measured. {said}")
    return max(known, key=lambda rung: sign * (rung.value or 0.0))


def difference(mine: Answers, best: Answers, asked: Asked) -> Difference:
    """metric(mine) - metric(best) on the same rows, with its paired interval."""
    if asked.task.parts is not None:
        import numpy as np

        (metric, a), (_, b) = (asked.task.parts(one, asked.targets, asked.space, asked.metric) for one in (mine, best))
        found = paired_test(metric, np.zeros(len(a)), a, b, n=DRAWS)
    else:
        a, b = (one.probs if asked.metric in PROBS else one.labels for one in (mine, best))
        found = paired_test(KNOWN[asked.metric], asked.targets, a, b, n=DRAWS)
    values = (found.difference, found.low, found.high, found.p)
    return Difference(**dict(zip(("difference", "low", "high", "p"), map(_known, values), strict=True)))


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def recommendation(rungs: Sequence[Rung], asked: Asked) -> tuple[str, str]:
    """The cheapest rung within noise of the best, and the reason."""
    best = best_rung(rungs, asked.metric)
    measured = [rung for rung in rungs if rung.value is not None]
    taken = next(
        rung
        for rung in measured
        if rung.method == best.method or (rung.difference is not None and rung.difference.within_noise)
    )
    on = f"on {len(asked.targets):,} {asked.part} rows"
    figure = f"{asked.metric} {taken.value:.3f}"
    if taken.method != best.method and taken.difference is not None:
        beside = f"({best.method} {best.value:.3f}, {_difference(taken.difference)})"
        if METHODS[taken.method].floor:
            floor = "no method is clearly better than an answer that does not look at the text"
            return taken.method, f"{taken.method}: {floor}: {figure} is within noise of the best {beside} {on}."
        cost = f"{_share(taken.training_seconds, best.training_seconds, 'training time')} and "
        cost += _share(taken.latency_ms, best.latency_ms, "latency")
        return taken.method, f"{taken.method}: {figure} is within noise of the best {beside} {on}, at {cost}."
    cheaper = measured[: measured.index(taken)]
    if len(measured) == 1:
        return taken.method, f"{taken.method}: {figure} {on}; it is the only method that was measured."
    if not cheaper:
        return taken.method, f"{taken.method}: {figure} {on} is the best, and it is the cheapest method, too."
    near = best_rung(cheaper, asked.metric)
    gap = "" if near.difference is None else f", {_difference(near.difference)}"
    beside = f"(the nearest is {near.method} {near.value:.3f}{gap})"
    return taken.method, f"{taken.method}: {figure} is the best, and every cheaper method is worse {beside} {on}."


def _difference(one: Difference) -> str:
    if one.difference is None:
        return "difference not defined"
    if one.low is None or one.high is None:
        return f"difference {one.difference:.3f}"
    return f"difference {one.difference:.3f}, {one.low:.3f} to {one.high:.3f}"


def _share(mine: float | None, other: float | None, of: str) -> str:
    """1/60 of its training time, about its latency, 2.1 times its latency."""
    if not mine or not other:
        return f"an unknown share of its {of}"
    times = other / mine
    if 1 / ALIKE < times < ALIKE:
        return f"about its {of}"
    if times < 1:
        return f"{1 / times:.2g} times its {of}"
    return f"1/{float(f'{times:.2g}'):,g} of its {of}"
