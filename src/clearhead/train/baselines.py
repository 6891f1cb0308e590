"""Baselines for a trained network on the same rows: the most frequent answer, untrained cosine, frozen features.

Each takes seconds where fine-tuning takes minutes. A network that does not beat them is not worth its cost, which the
run reports at its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.checkpoint.passport import TrainingRecord
from clearhead.classic import fit_linear
from clearhead.errors import ClearheadError
from clearhead.evaluate.difference import Comparison, Difference, measure_difference
from clearhead.jobs.defaults import make_length_policy
from clearhead.jobs.events import RunEvents
from clearhead.jobs.method import FitInputs, FittedMethod
from clearhead.jobs.plan import LOWER_IS_BETTER, NETWORK_METHODS, RunPlan
from clearhead.jobs.prepare import PartRows, PreparedData, read_text_rows
from clearhead.model import Model
from clearhead.predict.frozen_features import PairFeatures, compute_pair_features
from clearhead.progress import Progress
from clearhead.tasks.task import Calibration
from clearhead.train.finish import FittedBaseline, compute_held_out_logits, measure_parts
from clearhead.train.methods import FIT_METHODS
from clearhead.training.settings import TrainSettings

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_ROWS = 5_000  # maximum number of training rows of a baseline


@dataclass(frozen=True, kw_only=True)
class BaselineComparison:
    """The comparison of a baseline with the kept model."""

    method: str  # majority, cosine or features; finetune if features are kept
    rows: int  # number of training rows
    value: float | None  # main metric; None: undefined on these rows
    low: float | None
    high: float | None
    difference: Difference  # metric of the kept model minus that of the baseline, on the same rows
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values."""
        return asdict(self)


def has_baselines(prepared: PreparedData, plan: RunPlan, *, both_orders: bool) -> bool:
    """Whether the run is compared with baselines, and its task has some."""
    is_comparable = plan.method in NETWORK_METHODS or plan.method == "features"
    has_features_method = "features" in prepared.task.methods and not both_orders and len(prepared.parts) > 1
    return plan.baselines and is_comparable and has_features_method


def fit_baselines(
    prepared: PreparedData, plan: RunPlan, folder: Path, progress: Progress, load_encoder: Callable[[RunPlan], Model]
) -> tuple[FittedBaseline, ...]:
    """Fit every baseline of a task; `load_encoder` loads the model that the run started from, without its head."""
    if not has_baselines(prepared, plan, both_orders=bool(plan.both_orders)):
        return ()
    sample = _sample_training_rows(prepared, plan.settings.seed)
    baseline_plan = make_features_plan(plan)
    inputs = FitInputs(
        prepared=sample,
        plan=baseline_plan,
        settings=baseline_plan.settings,
        folder=folder,
        events=RunEvents(progress=progress),
    )
    baselines = []
    for method, fit in _list_baseline_fits(inputs, load_encoder, keeps_network=plan.method in NETWORK_METHODS).items():
        started = time.perf_counter()
        try:
            logits = compute_held_out_logits(sample, fit())
        except ClearheadError:
            continue  # for example if every class has a single row
        seconds = round(time.perf_counter() - started, 2)
        baselines.append(FittedBaseline(method=method, rows=len(sample.parts["train"]), logits=logits, seconds=seconds))
    return tuple(baselines)


def make_features_plan(plan: RunPlan) -> RunPlan:
    """Turn the plan of a network into one for frozen features."""
    return replace(plan, **list_features_plan_changes(plan.settings))


def list_features_plan_changes(settings: TrainSettings) -> dict[str, Any]:
    """The fields in which a plan for frozen features differs from that of a network."""
    return {
        "method": "features",
        "settings": replace(settings, freeze_encoder=False),
        "head_pooling": "auto",
        "minutes": None,
        "auto_method": False,
    }


def compare_baselines(
    baselines: tuple[FittedBaseline, ...],
    prepared: PreparedData,
    plan: RunPlan,
    logits: Mapping[str, Any],
    calibration: Calibration,
    part: str,
) -> tuple[BaselineComparison, ...]:
    """Compare every baseline with the kept model on the same rows."""
    task, space = prepared.task, prepared.space
    metric = plan.metric or task.metrics.main(space)
    comparison = Comparison(task=task, space=space, metric=metric, part=part, targets=prepared.parts[part].targets)
    predicted = task.decoding.decode(logits[part], space, calibration)
    comparisons = []
    for baseline in baselines:
        baseline_calibration, evaluations, _ = measure_parts(
            prepared, baseline.logits, replace(plan, target_accuracy=None)
        )
        baseline_predicted = task.decoding.decode(baseline.logits[part], space, baseline_calibration)
        interval = evaluations[part].metrics[metric]
        value, low, high = (
            float(bound) if isfinite(bound) else None for bound in (interval.value, interval.low, interval.high)
        )
        comparisons.append(
            BaselineComparison(
                method=baseline.method,
                rows=baseline.rows,
                value=value,
                low=low,
                high=high,
                difference=measure_difference(predicted, baseline_predicted, comparison),
                seconds=baseline.seconds,
            )
        )
    return tuple(comparisons)


def _list_baseline_fits(
    inputs: FitInputs, load_encoder: Callable[[RunPlan], Model], *, keeps_network: bool
) -> dict[str, Callable[[], FittedMethod]]:
    """A function per baseline that fits it; frozen features are not a baseline of themselves."""
    fit_functions: dict[str, Callable[[], FittedMethod]] = {}
    if "majority" in inputs.prepared.task.methods:
        fit_functions["majority"] = lambda: FIT_METHODS["majority"](inputs)
    is_single_text = inputs.prepared.columns.text_b is None
    if is_single_text and not keeps_network:
        return fit_functions
    try:
        model = load_encoder(inputs.plan)
    except ClearheadError:
        return fit_functions  # the model has no encoder without its head
    if is_single_text:
        return fit_functions | {"features": lambda: FIT_METHODS["features"](replace(inputs, model=model))}
    pair_baselines = PairBaselines(model, inputs)
    names = ("cosine", "features") if keeps_network else ("cosine",)
    return fit_functions | {name: partial(pair_baselines.fit, name) for name in names}


class PairBaselines:
    """Two baselines for pairs from one pass: the untrained cosine as the only feature, and |a - b| with a * b."""

    def __init__(self, model: Model, inputs: FitInputs) -> None:
        self._model, self._inputs = model, inputs
        self._features: dict[int, PairFeatures] = {}

    def fit(self, name: str) -> FittedMethod:
        """Fit a linear model on the features of one baseline, cosine or features."""

        inputs, train = self._inputs, self._inputs.prepared.parts["train"]
        linear = fit_linear(
            self._select_features(name, train),
            train.targets,
            inputs.prepared.space,
            strength=inputs.plan.C,
            class_weight=inputs.settings.class_weight,
            seed=inputs.settings.seed,
        )
        return FittedMethod(logits=lambda part: linear.logits(self._select_features(name, part)), save=_refuse_save)

    def _select_features(self, name: str, part: PartRows) -> Array:
        if id(part) not in self._features:
            length_policy = make_length_policy(self._inputs.plan, self._model)
            self._features[id(part)] = compute_pair_features(
                self._model, read_text_rows(part), length_policy, progress=self._inputs.stage_progress("features")
            )
        features = self._features[id(part)]
        return features.cosine[:, None] if name == "cosine" else features.features


def _refuse_save(folder: Path, trained: TrainingRecord) -> None:
    """Baselines are only measured."""
    raise AssertionError(f"baselines are not saved, but {folder} was requested for {trained.task}")


def _sample_training_rows(prepared: PreparedData, seed: int) -> PreparedData:
    """Limit the training rows to a random sample, so that baselines take seconds."""
    import numpy as np

    train = prepared.parts["train"]
    if len(train) <= MAX_ROWS:
        return prepared
    rows = np.sort(np.random.default_rng(seed).permutation(len(train))[:MAX_ROWS])
    return replace(prepared, parts={**prepared.parts, "train": replace(train, indices=train.indices[rows])})


def describe_better_baseline(baselines: tuple[BaselineComparison, ...], metric: str, value: float) -> str | None:
    """A warning if a cheaper method is significantly better than the network, otherwise None."""
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0

    def is_better(baseline: BaselineComparison) -> bool:
        bound = baseline.difference.high if sign > 0 else baseline.difference.low
        return baseline.value is not None and bound is not None and sign * bound < 0

    better_baselines = [baseline for baseline in baselines if is_better(baseline)]
    if not better_baselines:
        return None
    best = max(better_baselines, key=lambda baseline: sign * (baseline.value or 0.0))
    features_setting = setting("method", "features", of="train")
    alternative = (
        f", or train with {features_setting}" if any(baseline.method == "features" for baseline in baselines) else ""
    )
    advice = {
        "features": f"train with {features_setting}",
        "cosine": f"compare the vectors of `embed` by cosine{alternative}",
        "finetune": f"train with {setting('method', 'finetune', of='train')}",
        "majority": "check the labels, train longer, or use more rows",
    }[best.method]
    difference = best.difference
    gap = f"difference {difference.difference:+.3f}, {difference.low:+.3f} to {difference.high:+.3f}"
    return f"{best.method} is better than this model: {metric} {best.value:.3f} vs. {value:.3f} ({gap}); {advice}."
