"""What a trained network has to beat on the same rows: the most frequent answer, untrained cosine, frozen features.

Each of them costs seconds where fine-tuning costs minutes. A network that is not better than they are is not worth its
cost, and the end of the run says so.
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
from clearhead.predict.scoring import PairFeatures, compute_pair_features
from clearhead.progress import Progress
from clearhead.tasks.task import Calibration
from clearhead.train.finish import FittedBaseline, compute_held_out_logits, measure_parts
from clearhead.train.methods import FIT_METHODS
from clearhead.training.settings import TrainSettings

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_ROWS = 5_000  # training rows that a baseline is fitted on


@dataclass(frozen=True, kw_only=True)
class BaselineComparison:
    """Another method beside the kept model."""

    method: str  # majority, cosine or features; finetune beside features that were kept
    rows: int  # training rows that it was fitted on
    value: float | None  # the main metric; None: not defined on these rows
    low: float | None
    high: float | None
    difference: Difference  # the kept model's metric minus this one's, on the same rows
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def has_baselines(prepared: PreparedData, plan: RunPlan, *, both_orders: bool) -> bool:
    """Whether cheap methods can do what a run does."""
    is_comparable = plan.method in NETWORK_METHODS or plan.method == "features"
    has_features_method = "features" in prepared.task.methods and not both_orders and len(prepared.parts) > 1
    return plan.baselines and is_comparable and has_features_method


def fit_baselines(
    prepared: PreparedData, plan: RunPlan, folder: Path, progress: Progress, load_encoder: Callable[[RunPlan], Model]
) -> tuple[FittedBaseline, ...]:
    """Every baseline of a task; `load_encoder` is the model that the run started from, without a head."""
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
            continue  # such as classes of one row each, to which nothing can be fitted
        seconds = round(time.perf_counter() - started, 2)
        baselines.append(FittedBaseline(method=method, rows=len(sample.parts["train"]), logits=logits, seconds=seconds))
    return tuple(baselines)


def make_features_plan(plan: RunPlan) -> RunPlan:
    """The plan of a network as one of frozen features."""
    return replace(plan, **features_plan_changes(plan.settings))


def features_plan_changes(settings: TrainSettings) -> dict[str, Any]:
    """What a plan of frozen features has in place of a network's choices."""
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
    """Every baseline beside the kept model, on the same rows."""
    task, space = prepared.task, prepared.space
    metric = plan.metric or task.metrics.main(space)
    asked = Comparison(task=task, space=space, metric=metric, part=part, targets=prepared.parts[part].targets)
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
                difference=measure_difference(predicted, baseline_predicted, asked),
                seconds=baseline.seconds,
            )
        )
    return tuple(comparisons)


def _list_baseline_fits(
    inputs: FitInputs, load_encoder: Callable[[RunPlan], Model], *, keeps_network: bool
) -> dict[str, Callable[[], FittedMethod]]:
    """How each baseline of a task is fitted; features are none beside features."""
    fits: dict[str, Callable[[], FittedMethod]] = {}
    if "majority" in inputs.prepared.task.methods:
        fits["majority"] = lambda: FIT_METHODS["majority"](inputs)
    is_single_text = inputs.prepared.columns.text_b is None
    if is_single_text and not keeps_network:
        return fits
    try:
        model = load_encoder(inputs.plan)
    except ClearheadError:
        return fits  # no encoder without its head
    if is_single_text:
        return fits | {"features": lambda: FIT_METHODS["features"](replace(inputs, model=model))}
    pair_baselines = PairBaselines(model, inputs)
    names = ("cosine", "features") if keeps_network else ("cosine",)
    return fits | {name: partial(pair_baselines.fit, name) for name in names}


class PairBaselines:
    """Two baselines of pairs out of one pass: the untrained cosine as a single number, and |a - b| and a * b."""

    def __init__(self, model: Model, inputs: FitInputs) -> None:
        self._model, self._inputs = model, inputs
        self._features: dict[int, PairFeatures] = {}

    def fit(self, name: str) -> FittedMethod:
        """A linear model on the one or the other."""

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
    """A baseline is measured and forgotten."""
    raise AssertionError(f"no baseline is saved, and one was to be in {folder} for {trained.task}")


def _sample_training_rows(prepared: PreparedData, seed: int) -> PreparedData:
    """The same with at most so many training rows that a baseline takes seconds."""
    import numpy as np

    train = prepared.parts["train"]
    if len(train) <= MAX_ROWS:
        return prepared
    rows = np.sort(np.random.default_rng(seed).permutation(len(train))[:MAX_ROWS])
    return replace(prepared, parts={**prepared.parts, "train": replace(train, indices=train.indices[rows])})


def describe_better_baseline(baselines: tuple[BaselineComparison, ...], metric: str, value: float) -> str | None:
    """A sentence where a cheaper method is better than the network beyond noise; None: none is."""
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0

    def is_better(one: BaselineComparison) -> bool:
        bound = one.difference.high if sign > 0 else one.difference.low
        return one.value is not None and bound is not None and sign * bound < 0

    better = [baseline for baseline in baselines if is_better(baseline)]
    if not better:
        return None
    best = max(better, key=lambda baseline: sign * (baseline.value or 0.0))
    features_setting = setting("method", "features", of="train")
    alternative = (
        f", or train with {features_setting}" if any(baseline.method == "features" for baseline in baselines) else ""
    )
    advice = {
        "features": f"train with {features_setting}",
        "cosine": f"compare the vectors of `embed` by their cosine{alternative}",
        "finetune": f"train with {setting('method', 'finetune', of='train')}",
        "majority": "check the labels, or train longer or on more rows",
    }[best.method]
    difference = best.difference
    gap = f"difference {difference.difference:+.3f}, {difference.low:+.3f} to {difference.high:+.3f}"
    return f"{best.method} is better than this model: {metric} {best.value:.3f} against {value:.3f} ({gap}); {advice}."
