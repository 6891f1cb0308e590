"""The methods of a ladder in the order of their cost, and the result of each method."""

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
)  # (budgets up to, rounded up to multiples of), in seconds
BUDGET_RESERVE = 1.2  # a suggested budget is this multiple of the estimate


@dataclass(frozen=True, kw_only=True)
class Method:
    """A training method as a step of the ladder."""

    estimate: Callable[[RunPlan, PreparedData], Estimate] | None = None  # None: too fast to need an estimate
    uses_network: bool = True  # whether it needs a pretrained model
    is_baseline: bool = False  # whether it ignores the texts
    is_often_best: bool = False  # time is reserved for it, and the recommendation mentions its absence
    is_default: bool = True  # whether it is included by default


# In the order of training and display: by cost. A new head predicts as slowly as a fine-tuned network, trains about as
# long, and was worse than features on all datasets of docs/results.md, so it is last and only used on request.
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
    """Quality and cost of one method, or the reason why it was left out."""

    method: str
    left_out: str | None = None  # reason, in a sentence with the name of the method
    folder: str | None = None
    value: float | None = None  # main metric, with its 95 % interval
    low: float | None = None
    high: float | None = None
    training_seconds: float | None = None
    latency_ms: float | None = None  # median time for one text
    size_mb: float | None = None  # files needed to predict
    reused: bool = False  # trained by an earlier call
    difference: Difference | None = None  # difference to the best method; None for the best
    epochs: int | None = None  # reduced to fit into the budget; None: as planned
    planned_epochs: int | None = None  # set if epochs were reduced
    needs_seconds: float | None = None  # time of all epochs, if reduced or left out
    needs_budget: str | None = None  # a --budget that suffices for all epochs

    @property
    def name(self) -> str:
        """The method, with its number of epochs if reduced."""
        return self.method if self.epochs is None else f"{self.method} ({self.epochs} of {self.planned_epochs} epochs)"

    @property
    def folder_name(self) -> str:
        """Name of its run folder in the folder of the ladder."""
        return run_folder_name(self.method, self.epochs)


def run_folder_name(method: str, epochs: int | None = None) -> str:
    """Name the run folder of a method; runs with fewer epochs have their own, so that a full run can follow."""
    return method if epochs is None else f"{method}-{epochs}-epochs"


def summarize_recommendation(results: Sequence[MethodResult], method: str, metric: str) -> tuple[str, str]:
    """Describe the recommended method with its score, and the number of measured methods."""
    recommended = next((result for result in results if result.method == method), None)
    score = "" if recommended is None or recommended.value is None else f" {metric} {recommended.value:.3f}"
    if recommended is not None and recommended.low is not None:
        score += f" ({recommended.low:.3f} to {recommended.high:.3f})"
    measured_count = sum(result.left_out is None for result in results)
    return f"recommended {method}{score}", f"{measured_count} methods measured"


def parse_methods(methods: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the requested methods in the order of their cost; default: all except head."""
    if methods is None:
        return DEFAULT_METHODS
    requested = [name.strip() for name in (methods.split(",") if isinstance(methods, str) else methods)]
    for name in requested:
        if name not in METHODS:
            raise InputError(f"Unknown method {to_printable(name, 40)!r}; choose from {', '.join(METHODS)}.")
    if not requested:
        raise InputError(f"methods is empty; choose from {', '.join(METHODS)}.")
    return tuple(name for name in METHODS if name in requested)


def check_choices(choices: Mapping[str, Any]) -> None:
    """Raise InputError for settings that a ladder does not support."""
    if "method" in choices:
        raise InputError(f"A ladder compares several methods; set them with {setting('methods', 'a,b')}.")
    if choices.get("task") == "aspect":
        raise InputError("aspect consists of two tasks, tag and pair; run a ladder for each of them.")
    if choices.get("task") == "translate":
        raise InputError("translate has only one training method, so there is nothing to compare.")


def plan_method(method: str, *layers: Mapping[str, Any]) -> RunPlan:
    """Make the plan of one method from the settings of the ladder."""
    unused_settings = (set() if method == "features" else FEATURES_ONLY) | (
        set() if method in NETWORK_METHODS else NETWORK_ONLY
    )
    used_layers = [
        {key: value for key, value in layer.items() if key.replace("-", "_") not in unused_settings} for layer in layers
    ]
    return make_plan(
        *used_layers, {"method": method, "baselines": False}
    )  # methods of the ladder include the baselines


def parse_budget(budget: str | float) -> float:
    """Convert `90s`, `10m`, `1h` or a number of seconds to seconds."""
    seconds = float(budget) if isinstance(budget, int | float) else math.nan
    if isinstance(budget, str) and (match := re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smh])", budget.strip())):
        seconds = float(match[1]) * UNITS[match[2]]
    if not (seconds > 0 and math.isfinite(seconds)):
        raise InputError(f"budget is {to_printable(budget, 40)!r}; expected a time > 0 such as 90s, 10m or 1h.")
    return seconds


def suggest_budget(seconds: float) -> str:
    """Suggest a round budget for `seconds` in the format of --budget."""
    step = next(step for max_seconds, step in BUDGET_STEPS if seconds * BUDGET_RESERVE <= max_seconds)
    rounded = math.ceil(seconds * BUDGET_RESERVE / step) * step
    return f"{rounded}s" if rounded % 60 else f"{rounded // 60}m"


def format_duration(seconds: float) -> str:
    """Format a time with a unit: 0.25 s, 40 s, 14 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def format_result_cells(result: MethodResult) -> tuple[str, ...]:
    """Format a result as cells of a table row."""
    if result.left_out is not None:
        return result.name, f"omitted: {result.left_out}", "", "", "", ""
    bounds = "" if result.low is None or result.high is None else f"{result.low:.4f} to {result.high:.4f}"
    return (
        result.name,
        "not defined" if result.value is None else f"{result.value:.4f}",
        bounds,
        format_duration(result.training_seconds or 0.0),
        f"{result.latency_ms:.2f} ms",
        f"{result.size_mb:.2f} MB",
    )
