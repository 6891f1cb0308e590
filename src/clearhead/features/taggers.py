"""Linear taggers on frozen word features, and the choice of the best layer for them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clearhead.classic import fit_linear
from clearhead.data import LabelSpace, fold_rows
from clearhead.errors import InputError
from clearhead.features.layer_choices import LayerFeatures, list_layers, pool_layers, split_choice
from clearhead.features.sweep import FOLDS, FoldScorer, choose_best, cross_validate
from clearhead.jobs.method import LayerChoice, LayerSweep
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.prepare import PreparedData, encode_part
from clearhead.model import Model
from clearhead.predict.frozen_features import compute_word_arrays
from clearhead.progress import Progress, for_stage, no_progress
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.task import Calibration

if TYPE_CHECKING:
    import numpy as np

    from clearhead.classic import LinearModel

    Array = np.ndarray[Any, Any]

NO_POOLING = "each"  # every word has its own features
MAX_SWEEP_WORDS = 20_000  # words for the cross-validation of layers
MAX_TUNING_WORDS = 4_000  # words for tuning the regularization strength
MAX_FIT_WORDS = 50_000  # words that a linear model is fitted on


def select_tags(data: PackedDataset) -> Array:
    """The tags of the words that have features: (words,)."""
    import numpy as np

    is_tagged = data.pack_annotations(np.arange(len(data)))["has_token"]
    tags: Array = data.targets.values[is_tagged]
    return tags


def fit_tagger(
    features: Array,
    tags: Array,
    prepared: PreparedData,
    plan: RunPlan,
    *,
    seed: int,
    strength: float | None = None,
    progress: Progress = no_progress,
) -> LinearModel:
    """Fit a logistic regression on words; a sample of them tunes the strength if it is not set."""
    import numpy as np

    space = LabelSpace(names=prepared.space.names, kind="classes")
    chosen_strength = strength or plan.C
    if chosen_strength is None:
        tuning_words = np.sort(np.random.default_rng(seed).permutation(len(tags))[:MAX_TUNING_WORDS])
        chosen_strength = fit_linear(
            features[tuning_words], tags[tuning_words], space, seed=seed, progress=progress
        ).strength
    return fit_linear(features, tags, space, strength=chosen_strength, seed=seed, progress=progress)


def sample_rows(data: PackedDataset, word_count: int, seed: int, min_rows: int = 1) -> Array:
    """A random sample of rows with about `word_count` words in total; all rows if they have fewer."""
    import numpy as np

    word_tokens = data.annotations.word_tokens[data.table_rows]
    words_per_row = np.bincount(word_tokens.row_indices, weights=word_tokens.values >= 0, minlength=len(data))
    order = np.random.default_rng(seed).permutation(len(data))
    row_count = int(np.searchsorted(np.cumsum(words_per_row[order]), word_count, side="right"))
    return np.sort(order[: max(row_count, min_rows)])


def compute_word_features(
    model: Model, data: PackedDataset, choices: Sequence[LayerChoice], *, progress: Progress
) -> LayerFeatures:
    """Compute the features of every word for all choices in one pass over the texts."""
    layer_count = model.shape.stack.layers
    components = list(dict.fromkeys(component for choice in choices for component in split_choice(choice, layer_count)))

    def compute_components(hidden: Sequence[Array]) -> list[Array]:
        features = pool_layers(hidden, {NO_POOLING: lambda tokens: tokens}, components)
        return [features[component] for component in components]

    arrays = compute_word_arrays(
        model, data, compute_components, progress=for_stage(progress, "features of all layers")
    )
    return LayerFeatures(components=dict(zip(components, arrays, strict=True)), layers=layer_count)


def sweep_words(model: Model, prepared: PreparedData, plan: RunPlan, *, seed: int, progress: Progress) -> LayerSweep:
    """Choose the layer for a linear tagger: one pass for all choices, then cross-validation over sentences."""

    train = prepared.parts["train"]
    layers, notes = list_layers(model.shape.stack.layers)
    choices = [LayerChoice(layer=layer, pooling=NO_POOLING) for layer in layers]
    train_data = encode_part(model, train)
    rows = sample_rows(train_data, MAX_SWEEP_WORDS, seed, FOLDS)
    data = train_data.select(rows)
    started = time.perf_counter()
    features = compute_word_features(model, data, choices, progress=progress)
    seconds = time.perf_counter() - started
    assert prepared.task.rows.stratify is not None
    labels, kind = prepared.task.rows.stratify(data.targets, prepared.space)
    try:
        folds = fold_rows(labels, train.table.hashes[data.table_rows], None, folds=FOLDS, seed=seed, kind=kind)
    except InputError as error:
        raise InputError(f"Cannot compare layers on these training rows: {error}") from None
    metric = plan.metric or prepared.task.metrics.main(prepared.space)
    scores = cross_validate(
        choices, features.select, folds, _make_word_fold_scorer(data, prepared, plan, metric, seed), progress=progress
    )
    best = choose_best(scores, metric)
    best_score = next(score for score in scores if score.layer == best.layer)
    validation = f"{int(folds.max()) + 1}-fold cross-validation on {len(rows):,} training rows"
    cost = f"all {len(choices)} choices in one pass of {seconds:.1f} s, {features.megabytes:.0f} MB"
    summary = f"sweep: {best.layer} has the best {metric}, {best_score.score:.4f} in {validation} ({cost})."
    return LayerSweep(scores=scores, best=best, features=features.select(best), notes=(summary, *notes))


def _make_word_fold_scorer(
    data: PackedDataset, prepared: PreparedData, plan: RunPlan, metric: str, seed: int
) -> FoldScorer:
    """Score linear taggers that are fitted on the words of the other folds, with the metric of the task."""
    import numpy as np

    task, space = prepared.task, prepared.space
    tags = select_tags(data)
    word_rows = data.pack_annotations(np.arange(len(data)))["token_rows"]
    assert task.head.collect_words is not None
    arrange_words = task.head.collect_words

    def score_folds(features: Array, folds: Array) -> list[float]:
        strength = fit_tagger(features[:MAX_TUNING_WORDS], tags[:MAX_TUNING_WORDS], prepared, plan, seed=seed).strength
        scores = []
        for fold in range(int(folds.max()) + 1):
            is_held_out = folds[word_rows] == fold
            linear = fit_tagger(
                features[~is_held_out], tags[~is_held_out], prepared, plan, seed=seed, strength=strength
            )
            fold_data = data.select(np.flatnonzero(folds == fold))
            predicted = task.decoding.decode(
                arrange_words(linear.logits(features[is_held_out]), fold_data), space, Calibration()
            )
            scores.append(task.metrics.measure(predicted, fold_data.targets, space, 0)[metric].value)
        return scores

    return score_folds
