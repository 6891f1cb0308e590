"""The layer sweep: choose layers and pooling by cross-validation on the training rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from math import isfinite
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.classic import fit_linear
from clearhead.data import fold_rows
from clearhead.errors import InputError
from clearhead.features.layer_choices import compute_text_features, list_choices
from clearhead.jobs.defaults import make_length_policy
from clearhead.jobs.method import LayerChoice, LayerScore, LayerSweep
from clearhead.jobs.plan import LOWER_IS_BETTER, RunPlan
from clearhead.jobs.prepare import PartRows, PreparedData, encode_part, read_text_rows
from clearhead.model import Model
from clearhead.predict.frozen_features import (
    compare_vectors,
    compute_pair_features,
    compute_table_features,
    encode_texts_separately,
    encode_unlabeled,
)
from clearhead.progress import Progress, for_stage
from clearhead.tasks.task import Calibration

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

FOLDS = 5
MAX_ROWS = 5000  # rows for cross-validation: enough that the choice hardly depends on the sample

FoldScorer = Callable[["Array", "Array"], list[float]]  # (features, fold of each row) to the score of each fold


def cross_validate(
    choices: Iterable[LayerChoice],
    features: Callable[[LayerChoice], Array],
    folds: Array,
    score_folds: FoldScorer,
    *,
    progress: Progress,
) -> tuple[LayerScore, ...]:
    """Score every choice on the same folds; rows are texts, or words, whose fold is that of their text."""
    import numpy as np

    choice_list, layer_scores = list(choices), []
    for index, choice in enumerate(choice_list):
        progress(f"sweep: {choice}", index, len(choice_list))
        started = time.perf_counter()
        scores = np.array([fold_score for fold_score in score_folds(features(choice), folds) if isfinite(fold_score)])
        layer_scores.append(
            LayerScore(
                layer=choice.layer,
                pooling=choice.pooling,
                score=float(scores.mean()) if len(scores) else None,
                spread=float(scores.std(ddof=1)) if len(scores) > 1 else None,
                seconds=round(time.perf_counter() - started, 3),
            )
        )
    return tuple(layer_scores)


def choose_best(scores: Iterable[LayerScore], metric: str) -> LayerChoice:
    """The choice with the best mean score; the first of equal ones."""
    defined = [score for score in scores if score.score is not None]
    if not defined:
        options = f"{setting('layer')} and {setting('pooling')}"
        raise InputError(
            f"{metric} is undefined on every fold of the training rows; set {options} instead of sweeping."
        )
    sign = -1 if metric in LOWER_IS_BETTER else 1
    best = max(defined, key=lambda score: sign * (score.score or 0.0))
    return LayerChoice(layer=best.layer, pooling=best.pooling)


def sweep_texts(model: Model, prepared: PreparedData, plan: RunPlan, *, seed: int, progress: Progress) -> LayerSweep:
    """Choose the text features for a linear model: one pass for all choices, then cross-validation."""
    import numpy as np

    train = prepared.parts["train"]
    choices, notes = list_choices(model)
    text_pairs = read_text_rows(train) if train.columns.text_b is not None else None
    length_policy = make_length_policy(plan, model)
    rows = np.arange(len(train))
    if len(rows) > MAX_ROWS:
        rows = np.sort(np.random.default_rng(seed).permutation(len(rows))[:MAX_ROWS])
    folds = _assign_folds(train, rows, seed)
    if text_pairs is None:
        data = encode_part(model, train).select(rows)
    else:
        data = encode_unlabeled(
            encode_texts_separately([text_pairs[row] for row in rows.tolist()], model, length_policy), model
        )
    started = time.perf_counter()
    features = compute_text_features(model, data, choices, progress=for_stage(progress, "features of all layers"))

    def select_features(choice: LayerChoice) -> Array:
        pooled = features.select(choice)
        return pooled if text_pairs is None else compare_vectors(pooled)

    seconds = time.perf_counter() - started
    metric = plan.metric or prepared.task.metrics.main(prepared.space)
    score_folds = make_fold_scorer(train.targets[rows], prepared, plan, seed=seed)
    scores = cross_validate(choices, select_features, folds, score_folds, progress=progress)
    best = choose_best(scores, metric)
    best_features = select_features(best)
    if len(rows) < len(train) and text_pairs is not None:
        best_features = compute_pair_features(
            model, text_pairs, length_policy, layer=best.layer, pooling=(best.pooling,)
        ).features
    elif len(rows) < len(train):
        best_features = compute_table_features(
            model, encode_part(model, train), layer=best.layer, pooling=(best.pooling,)
        )
    best_score = next(score for score in scores if (score.layer, score.pooling) == (best.layer, best.pooling))
    row_counts = f"{len(rows):,} of {len(train):,}" if len(rows) < len(train) else f"{len(rows):,}"
    validation = f"{folds.max() + 1}-fold cross-validation on {row_counts} training rows"
    cost = f"all {len(choices)} choices in one pass of {seconds:.1f} s, {features.megabytes:.0f} MB"
    summary = f"sweep: {best} has the best {metric}, {best_score.score:.4f} in {validation} ({cost})."
    return LayerSweep(scores=scores, best=best, features=best_features, notes=(summary, *notes))


def _assign_folds(train: PartRows, rows: Array, seed: int) -> Array:
    """Stratified folds of the rows, which keep duplicates and groups together."""
    indices, groups = train.indices[rows], train.groups
    try:
        return fold_rows(
            train.targets[rows],
            train.table.hashes[indices],
            None if groups is None else groups[rows],
            folds=FOLDS,
            seed=seed,
            kind=train.space.kind,
        )
    except InputError as error:
        raise InputError(f"Cannot compare layers on these training rows: {error}") from None


def make_fold_scorer(targets: Array, prepared: PreparedData, plan: RunPlan, *, seed: int) -> FoldScorer:
    """Score linear models that are fitted on the other folds, with the metric of the task.

    The regularization strength is tuned once per choice on all rows, and used for every fold.
    """

    task, space = prepared.task, prepared.space
    metric = plan.metric or task.metrics.main(space)

    def fit(features: Array, fit_targets: Array, strength: float | None) -> Any:
        weight = plan.settings.class_weight
        return fit_linear(features, fit_targets, space, strength=strength, class_weight=weight, seed=seed)

    def score_folds(features: Array, folds: Array) -> list[float]:
        strength = plan.C or fit(features, targets, None).strength
        scores = []
        for fold in range(int(folds.max()) + 1):
            is_held_out = folds == fold
            logits = fit(features[~is_held_out], targets[~is_held_out], strength).logits(features[is_held_out])
            predicted = task.decoding.decode(logits, space, Calibration())
            scores.append(task.metrics.measure(predicted, targets[is_held_out], space, 0)[metric].value)
        return scores

    return score_folds
