"""Which layer? Every choice of features judged by cross-validation on the training rows; the best one is taken."""

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
from clearhead.predict.scoring import (
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
MAX_ROWS = 5000  # rows that choices are judged on: their differences are then no longer a matter of the rows

Judge = Callable[["Array", "Array"], list[float]]  # (features, fold of each row) to the score of each fold


def cross_validate(
    choices: Iterable[LayerChoice],
    features: Callable[[LayerChoice], Array],
    folds: Array,
    judge: Judge,
    *,
    progress: Progress,
) -> tuple[LayerScore, ...]:
    """Every choice on the same folds; rows can be texts, or tokens of texts that share a fold."""
    import numpy as np

    listed, made = list(choices), []
    for place, choice in enumerate(listed):
        progress(f"sweep: {choice}", place, len(listed))
        begun = time.perf_counter()
        scores = np.array([score for score in judge(features(choice), folds) if isfinite(score)])
        made.append(
            LayerScore(
                layer=choice.layer,
                pooling=choice.pooling,
                score=float(scores.mean()) if len(scores) else None,
                spread=float(scores.std(ddof=1)) if len(scores) > 1 else None,
                seconds=round(time.perf_counter() - begun, 3),
            )
        )
    return tuple(made)


def choose_best(swept: Iterable[LayerScore], metric: str) -> LayerChoice:
    """The choice with the best mean; of equal ones the first."""
    known = [one for one in swept if one.score is not None]
    if not known:
        both = f"{setting('layer')} and {setting('pooling')}"
        raise InputError(f"{metric} is not defined on any fold of the training rows; choose {both}.")
    sign = -1 if metric in LOWER_IS_BETTER else 1
    best = max(known, key=lambda one: sign * (one.score or 0.0))
    return LayerChoice(layer=best.layer, pooling=best.pooling)


def sweep_texts(model: Model, prepared: PreparedData, plan: RunPlan, *, seed: int, progress: Progress) -> LayerSweep:
    """The best features of whole texts for a linear model: one pass for all choices, then folds of the same rows."""
    import numpy as np

    train = prepared.parts["train"]
    choices, notes = list_choices(model)
    pairs = read_text_rows(train) if train.columns.text_b is not None else None
    fit = make_length_policy(plan, model)
    rows = np.arange(len(train))
    if len(rows) > MAX_ROWS:
        rows = np.sort(np.random.default_rng(seed).permutation(len(rows))[:MAX_ROWS])
    folds = _assign_folds(train, rows, seed)
    if pairs is None:
        data = encode_part(model, train).select(rows)
    else:
        data = encode_unlabeled(encode_texts_separately([pairs[row] for row in rows.tolist()], model, fit), model)
    begun = time.perf_counter()
    features = compute_text_features(model, data, choices, progress=for_stage(progress, "features of all layers"))

    def features_of(choice: LayerChoice) -> Array:
        made = features.select(choice)
        return made if pairs is None else compare_vectors(made)

    seconds = time.perf_counter() - begun
    metric = plan.metric or prepared.task.metrics.main(prepared.space)
    judge = make_linear_judge(train.targets[rows], prepared, plan, seed=seed)
    swept = cross_validate(choices, features_of, folds, judge, progress=progress)
    best = choose_best(swept, metric)
    chosen = features_of(best)
    if len(rows) < len(train) and pairs is not None:
        chosen = compute_pair_features(model, pairs, fit, layer=best.layer, pooling=(best.pooling,)).features
    elif len(rows) < len(train):
        chosen = compute_table_features(model, encode_part(model, train), layer=best.layer, pooling=(best.pooling,))
    found = next(one for one in swept if (one.layer, one.pooling) == (best.layer, best.pooling))
    some = f"{len(rows):,} of {len(train):,}" if len(rows) < len(train) else f"{len(rows):,}"
    how = f"{folds.max() + 1}-fold cross-validation on {some} training rows"
    cost = f"features of all {len(choices)} choices in one pass of {seconds:.1f} s, {features.megabytes:.0f} MB"
    said = f"sweep: {best} has the best {metric}, {found.score:.4f} by {how} ({cost})."
    return LayerSweep(scores=swept, best=best, features=chosen, notes=(said, *notes))


def _assign_folds(train: PartRows, rows: Array, seed: int) -> Array:
    """Folds of the rows that are judged: stratified, and what belongs together in one of them."""
    places, groups = train.indices[rows], train.groups
    try:
        return fold_rows(
            train.targets[rows],
            train.table.hashes[places],
            None if groups is None else groups[rows],
            folds=FOLDS,
            seed=seed,
            kind=train.space.kind,
        )
    except InputError as error:
        raise InputError(f"Layers cannot be compared on these training rows: {error}") from None


def make_linear_judge(targets: Array, prepared: PreparedData, plan: RunPlan, *, seed: int) -> Judge:
    """A linear model on each fold's other rows, measured on the fold as the task measures.

    The strength is one number that is found once for a choice, on all rows, for every fold alike.
    """

    task, space = prepared.task, prepared.space
    metric = plan.metric or task.metrics.main(space)

    def fitted(features: Array, truth: Array, strength: float | None) -> Any:
        weight = plan.settings.class_weight
        return fit_linear(features, truth, space, strength=strength, class_weight=weight, seed=seed)

    def judge(features: Array, folds: Array) -> list[float]:
        strength = plan.C or fitted(features, targets, None).strength
        scores = []
        for fold in range(int(folds.max()) + 1):
            held = folds == fold
            logits = fitted(features[~held], targets[~held], strength).logits(features[held])
            answers = task.decode.read(logits, space, Calibration())
            scores.append(task.metrics.measure(answers, targets[held], space, 0)[metric].value)
        return scores

    return judge
