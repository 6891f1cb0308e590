"""Fine-tuning or frozen features: where no method was named, the one that answers the dev rows better is kept.

On the data sets that were measured, fine-tuning wins on single texts and tags, and on up to 1,000 pairs it loses to a
linear model on |a - b| and a * b: a sentence encoder places similar texts close together, and never read two at once.
Few dev rows cannot tell which is better. docs/results.md has the figures, and on which rows the rule was chosen.
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
from clearhead.train.baselines import compare_baselines, features_plan, has_baselines
from clearhead.train.finish import FittedBaseline, KeptModel, held_out_logits, measure_parts
from clearhead.train.methods import FIT_METHODS
from clearhead.train.network import MIN_DEV_ROWS, can_choose_epoch

INTERVAL_WIDTH = 2 * 1.96  # standard errors in a 95 % interval


def starts_with_features(prepared: PreparedData, plan: RunPlan, *, both_orders: bool) -> bool:
    """Whether a network is not worth training: two texts, and too few dev rows to see whether it is the better one."""
    chosen = is_small_pair_data(prepared.columns, len(prepared.parts.get("dev", ())))
    return plan.auto_method and chosen and has_baselines(prepared, plan, both_orders=both_orders)


def is_small_pair_data(columns: Columns, dev_rows: int) -> bool:
    """Whether rows are two texts and too few to compare methods on."""
    return columns.text_b is not None and dev_rows < MIN_DEV_ROWS


def prefers_features(gap: Difference, metric: str, *, two_texts: bool) -> bool:
    """Whether a network that is so much better than features loses to them; one text leaves it a standard error."""
    if gap.difference is None or gap.low is None or gap.high is None:
        return False
    lead = -gap.difference if metric in LOWER_IS_BETTER else gap.difference
    return lead <= 0 if two_texts else lead < -(gap.high - gap.low) / INTERVAL_WIDTH


def _has_pairs(prepared: PreparedData) -> bool:
    return prepared.columns.text_b is not None


def choose_kept_model(
    inputs: FitInputs,
    result: FittedMethod,
    logits: Mapping[str, Any],
    beside: tuple[FittedBaseline, ...],
    seconds: float,
    encoder: Callable[[RunPlan], Model],
) -> KeptModel:
    """The network, or frozen features where they answer the dev rows better."""
    plan, prepared = inputs.plan, inputs.prepared
    network = KeptModel(plan=plan, result=result, logits=logits, baselines=beside)
    features = next((fit for fit in beside if fit.method == "features"), None)
    words_apart = prepared.task.head.words is not None  # tags: features lost on both data sets that were measured
    if features is None or words_apart or not plan.auto_method or not can_choose_epoch(prepared):
        return network
    reading, evaluations, _ = measure_parts(prepared, logits, replace(plan, target_accuracy=None))
    found = compare_baselines((features,), prepared, plan, logits, reading, "dev")[0]
    metric = evaluations["dev"].main
    if not prefers_features(found.difference, metric, two_texts=_has_pairs(prepared)):
        return network
    own = features_plan(plan)
    kept = FIT_METHODS["features"](replace(inputs, plan=own, settings=own.settings, model=encoder(own)))
    dev = f"dev {metric} {found.value:.4f}, fine-tuning {evaluations['dev'].value:.4f}"
    note = f"Kept frozen features and a linear model instead, which answer the dev rows better: {dev}"
    note += f" (to keep the fine-tuned model, use {setting('method', 'finetune', of='train')})."
    trained = FittedBaseline(
        method=plan.method, rows=len(prepared.parts["train"]), logits=logits, seconds=round(seconds, 2)
    )
    return KeptModel(
        plan=own,
        result=replace(kept, notes=(*result.notes, *kept.notes, note)),
        logits=held_out_logits(prepared, kept),
        baselines=(*(fit for fit in beside if fit is not features), trained),
    )
