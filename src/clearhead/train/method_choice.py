"""Fine-tuning or frozen features: without a chosen method, keep the one with the better dev score.

In our measurements, fine-tuning wins on single texts and tags, but on up to 1,000 pairs it loses to a linear model on
|a - b| and a * b: sentence encoders place similar texts close together, and were never trained on two texts at once.
Few dev rows are not enough to compare them. docs/results.md has the measurements, and the data behind this rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from clearhead.caller import setting
from clearhead.data import Columns
from clearhead.evaluate.difference import Difference
from clearhead.jobs.method import FitInputs, FittedMethod
from clearhead.jobs.plan import LOWER_IS_BETTER, RunPlan
from clearhead.jobs.prepare import PreparedData
from clearhead.model import Model
from clearhead.train.baselines import compare_baselines, has_baselines, make_features_plan
from clearhead.train.finish import FittedBaseline, KeptModel, compute_held_out_logits, measure_parts
from clearhead.train.methods import FIT_METHODS
from clearhead.train.network import MIN_DEV_ROWS, can_choose_epoch

INTERVAL_WIDTH = 2 * 1.96  # width of a 95 % interval in standard errors


def starts_with_features(prepared: PreparedData, plan: RunPlan, *, both_orders: bool) -> bool:
    """Whether to skip fine-tuning: rows are pairs, and there are too few dev rows to compare it with features."""
    is_small_pairs = is_small_pair_data(prepared.columns, len(prepared.parts.get("dev", ())))
    return plan.auto_method and is_small_pairs and has_baselines(prepared, plan, both_orders=both_orders)


def is_small_pair_data(columns: Columns, dev_rows: int) -> bool:
    """Whether the rows are pairs of texts with too few dev rows to compare methods."""
    return columns.text_b is not None and dev_rows < MIN_DEV_ROWS


def prefers_features(difference: Difference, metric: str, *, has_two_texts: bool) -> bool:
    """Whether features are better than the network; on single texts, by more than one standard error."""
    if difference.difference is None or difference.low is None or difference.high is None:
        return False
    lead = -difference.difference if metric in LOWER_IS_BETTER else difference.difference
    return lead <= 0 if has_two_texts else lead < -(difference.high - difference.low) / INTERVAL_WIDTH


def _has_pairs(prepared: PreparedData) -> bool:
    return prepared.columns.text_b is not None


def choose_kept_model(
    inputs: FitInputs,
    fitted: FittedMethod,
    logits: Mapping[str, Any],
    baselines: tuple[FittedBaseline, ...],
    seconds: float,
    load_encoder: Callable[[RunPlan], Model],
) -> KeptModel:
    """Choose the network, or frozen features if they have a better dev score."""
    plan, prepared = inputs.plan, inputs.prepared
    network = KeptModel(plan=plan, fitted=fitted, logits=logits, baselines=baselines)
    features_baseline = next((baseline for baseline in baselines if baseline.method == "features"), None)
    # features lost to fine-tuning on both measured tagging datasets
    is_tagging = prepared.task.head.collect_words is not None
    if features_baseline is None or is_tagging or not plan.auto_method or not can_choose_epoch(prepared):
        return network
    calibration, evaluations, _ = measure_parts(prepared, logits, replace(plan, target_accuracy=None))
    comparison = compare_baselines((features_baseline,), prepared, plan, logits, calibration, "dev")[0]
    metric = evaluations["dev"].main
    if not prefers_features(comparison.difference, metric, has_two_texts=_has_pairs(prepared)):
        return network
    features_plan = make_features_plan(plan)
    features = FIT_METHODS["features"](
        replace(inputs, plan=features_plan, settings=features_plan.settings, model=load_encoder(features_plan))
    )
    dev_scores = f"dev {metric} {comparison.value:.4f}, fine-tuning {evaluations['dev'].value:.4f}"
    note = f"Kept a linear model on frozen features, which is better on the dev rows: {dev_scores}"
    note += f" (to keep the fine-tuned model, use {setting('method', 'finetune', of='train')})."
    network_baseline = FittedBaseline(
        method=plan.method, rows=len(prepared.parts["train"]), logits=logits, seconds=round(seconds, 2)
    )
    return KeptModel(
        plan=features_plan,
        fitted=replace(features, notes=(*fitted.notes, *features.notes, note)),
        logits=compute_held_out_logits(prepared, features),
        baselines=(*(baseline for baseline in baselines if baseline is not features_baseline), network_baseline),
    )
