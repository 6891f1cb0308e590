"""The rungs of a ladder: methods in the order of their cost, and what each of them came to."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.caller import setting
from clearhead.errors import InputError
from clearhead.evaluate.difference import Difference
from clearhead.files import to_printable
from clearhead.jobs.plan import NETWORK_METHODS, RunPlan, make_plan
from clearhead.jobs.prepare import PreparedData
from clearhead.ladder.estimates import Estimate, estimate_features, estimate_network

FEATURES_ONLY = {"layer", "pooling", "layers"}
NETWORK_ONLY = {"head_pooling"}
UNITS = {"s": 1, "m": 60, "h": 3600}
BUDGET_STEPS = (
    (120.0, 30),
    (600.0, 60),
    (3600.0, 300),
    (math.inf, 1800),
)  # budgets are advised in steps of so many seconds
BUDGET_RESERVE = 1.2  # times an estimate, when a budget is advised


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method of `train` as a rung."""

    estimate: Callable[[RunPlan, PreparedData], Estimate] | None = None  # how long it takes; None: too short to ask
    uses_network: bool = True  # whether it starts from a model
    is_baseline: bool = False  # whether it learns nothing of the texts
    is_often_best: bool = False  # whether the budget keeps time for it, and its absence is part of the recommendation
    is_default: bool = True  # whether it is tried where no methods are named


# In the order in which they are trained and shown: by cost. A new head predicts as slowly as a fine-tuned network,
# trains about as long, and was worse than features on all data sets of docs/results.md: last, and only on request.
METHODS: dict[str, Method] = {
    "majority": Method(uses_network=False, is_baseline=True),
    "tfidf": Method(uses_network=False),
    "features": Method(estimate=estimate_features),
    "finetune": Method(estimate=estimate_network, is_often_best=True),
    "head": Method(estimate=estimate_network, is_default=False),
}
DEFAULT_METHODS = tuple(name for name, method in METHODS.items() if method.is_default)


@dataclass(frozen=True, kw_only=True)
class MethodResult:
    """What one method is worth and what it costs, or why it was left out."""

    method: str
    left_out: str | None = None  # why, in a sentence that names it
    folder: str | None = None
    value: float | None = None  # the main metric, with its interval
    low: float | None = None
    high: float | None = None
    training_seconds: float | None = None
    latency_ms: float | None = None  # of one text, the median
    size_mb: float | None = None  # of the files that are needed to predict
    reused: bool = False  # it had been trained before
    difference: Difference | None = None  # to the best; None: this is the best
    epochs: int | None = None  # fewer than planned, so that it fits into the budget; None: as planned
    planned_epochs: int | None = None  # where it had fewer
    needs_seconds: float | None = None  # where it had fewer, or was left out for want of time: what all would take
    needs_budget: str | None = None  # ... and a --budget that is enough

    @property
    def name(self) -> str:
        """The method, with how much of it there was time for."""
        return self.method if self.epochs is None else f"{self.method} ({self.epochs} of {self.planned_epochs} epochs)"

    @property
    def folder_name(self) -> str:
        """Its folder in that of the ladder."""
        return run_folder_name(self.method, self.epochs)


def run_folder_name(method: str, epochs: int | None = None) -> str:
    """Where a method is trained: with fewer epochs in a folder of its own, so that all of them can follow."""
    return method if epochs is None else f"{method}-{epochs}-epochs"


def summarize_recommendation(rungs: Sequence[MethodResult], method: str, metric: str) -> tuple[str, str]:
    """The method to take with its score, and how many were measured, in words."""
    found = next((rung for rung in rungs if rung.method == method), None)
    score = "" if found is None or found.value is None else f" {metric} {found.value:.3f}"
    if found is not None and found.low is not None:
        score += f" ({found.low:.3f} to {found.high:.3f})"
    measured = sum(rung.left_out is None for rung in rungs)
    return f"recommended {method}{score}", f"{measured} methods measured"


def parse_methods(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """The methods that were asked for, in the order of their cost; without a word, all but the new head."""
    if given is None:
        return DEFAULT_METHODS
    asked = [name.strip() for name in (given.split(",") if isinstance(given, str) else given)]
    for name in asked:
        if name not in METHODS:
            raise InputError(f"There is no method {to_printable(name, 40)!r}; a ladder has {', '.join(METHODS)}.")
    if not asked:
        raise InputError(f"methods names none; a ladder has {', '.join(METHODS)}.")
    return tuple(name for name in METHODS if name in asked)


def check_choices(choices: Mapping[str, Any]) -> None:
    """Refuse what no ladder can be made with."""
    if "method" in choices:
        raise InputError(f"A ladder tries several methods; say which ones with {setting('methods', 'a,b')}.")
    if choices.get("task") == "aspect":
        raise InputError("aspect is two tasks, tag and pair; climb the ladder with each of them.")
    if choices.get("task") == "translate":
        raise InputError("translate is learned in one way alone; there is no ladder of methods for it.")


def plan_method(method: str, *layers: Mapping[str, Any]) -> RunPlan:
    """The plan of one rung, out of what was said for all of them."""
    left = (set() if method == "features" else FEATURES_ONLY) | (set() if method in NETWORK_METHODS else NETWORK_ONLY)
    mine = [{key: value for key, value in layer.items() if key.replace("-", "_") not in left} for layer in layers]
    return make_plan(*mine, {"method": method, "baselines": False})  # the ladder has them itself


def parse_budget(given: str | float) -> float:
    """`90s`, `10m` or `1h` in seconds; a number is seconds already."""
    seconds = float(given) if isinstance(given, int | float) else math.nan
    if isinstance(given, str) and (found := re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smh])", given.strip())):
        seconds = float(found[1]) * UNITS[found[2]]
    if not (seconds > 0 and math.isfinite(seconds)):
        raise InputError(f"budget is {to_printable(given, 40)!r}; say a time above 0 such as 90s, 10m or 1h.")
    return seconds


def suggest_budget(seconds: float) -> str:
    """A round budget that so many seconds fit into, as --budget takes it."""
    step = next(step for most, step in BUDGET_STEPS if seconds * BUDGET_RESERVE <= most)
    whole = math.ceil(seconds * BUDGET_RESERVE / step) * step
    return f"{whole}s" if whole % 60 else f"{whole // 60}m"


def format_duration(seconds: float) -> str:
    """A time as people say it: 0.25 s, 40 s, 14 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def format_result_cells(rung: MethodResult) -> tuple[str, ...]:
    """A rung as a line of a table."""
    if rung.left_out is not None:
        return rung.name, f"left out: {rung.left_out}", "", "", "", ""
    between = "" if rung.low is None or rung.high is None else f"{rung.low:.4f} to {rung.high:.4f}"
    return (
        rung.name,
        "not defined" if rung.value is None else f"{rung.value:.4f}",
        between,
        format_duration(rung.training_seconds or 0.0),
        f"{rung.latency_ms:.2f} ms",
        f"{rung.size_mb:.2f} MB",
    )
