"""Training methods: each function fits the training rows and returns a model that computes logits and can be saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.checkpoint.passport import Passport, TrainingRecord, write_passport
from clearhead.classic import ClassicModel, fit_linear, fit_tfidf, save_classic
from clearhead.classic import fit_majority as fit_majority_class
from clearhead.errors import InputError
from clearhead.features.sweep import sweep_texts
from clearhead.features.taggers import MAX_FIT_WORDS, fit_tagger, sample_rows, select_tags, sweep_words
from clearhead.features.weighted import LayerWeights, learn_text_weights, learn_word_weights
from clearhead.features.word_vectors import fit_word_vectors
from clearhead.jobs.defaults import make_length_policy
from clearhead.jobs.method import FitInputs, FittedMethod
from clearhead.jobs.prepare import PartRows, encode_part, read_text_rows
from clearhead.model.layers import Layer, pooling_modes
from clearhead.predict.frozen_features import compute_pair_features, compute_table_features, compute_word_states
from clearhead.predict.passport_layer import WEIGHTED
from clearhead.tasks.packed import PackedDataset
from clearhead.train.network import fit_network

if TYPE_CHECKING:
    import numpy as np

    from clearhead.classic import ClassicModel

    Array = np.ndarray[Any, Any]

FITTING_STAGE = "fitting the linear model"
CHUNK_TEXTS = 1000  # texts per chunk of a classic model


def fit_features(inputs: FitInputs) -> FittedMethod:
    """Fit a linear model on the features of a frozen encoder, or on word vectors."""

    model, plan, prepared = inputs.model, inputs.plan, inputs.prepared
    if model is None:
        return fit_word_vectors(inputs)
    if prepared.task.head.collect_words is not None:
        return fit_word_features(inputs)
    pooling = None if plan.pooling is None else pooling_modes(plan.pooling.split("+"))
    layer: Layer | None = plan.layer
    sweep, layer_weights, seed = None, None, inputs.settings.seed
    if layer == WEIGHTED:
        layer_weights = learn_text_weights(model, prepared, plan, pooling, seed=seed, progress=inputs.events.progress)
        layer = layer_weights.mixture.weights
    if plan.layers == "sweep":
        sweep = sweep_texts(model, prepared, plan, seed=seed, progress=inputs.events.progress)
        layer, pooling = sweep.best.layer, (sweep.best.pooling,)
    are_separate = prepared.columns.text_b is not None and layer_weights is None

    def compute_features(part: PartRows) -> Array:
        progress = inputs.stage_progress("features")
        if are_separate:
            length_policy = make_length_policy(plan, model)
            return compute_pair_features(
                model, read_text_rows(part), length_policy, layer=layer, pooling=pooling, progress=progress
            ).features
        return compute_table_features(model, encode_part(model, part), layer=layer, pooling=pooling, progress=progress)

    train = prepared.parts["train"]
    linear = fit_linear(
        compute_features(train) if sweep is None else sweep.features,
        train.targets,
        prepared.space,
        strength=plan.C,
        class_weight=inputs.settings.class_weight,
        seed=inputs.settings.seed,
        progress=inputs.stage_progress(FITTING_STAGE),
    )
    classic = ClassicModel(method="linear", linear=linear)

    def save(folder: Path, trained: TrainingRecord) -> None:
        trained = replace(trained, pairs="separate" if are_separate else "together")
        replace(model, trained=_store_layer_weights(trained, layer_weights)).save(folder)
        save_classic(folder, classic)

    notes = sweep.notes if sweep is not None else () if layer_weights is None else (layer_weights.note,)
    if not linear.converged:
        notes = (*notes, "The logistic regression did not converge; try another strength.")
    return FittedMethod(
        logits=lambda part: classic.logits(features=compute_features(part)),
        save=save,
        notes=notes,
        sweep=sweep,
        model=model,
    )


def fit_word_features(inputs: FitInputs) -> FittedMethod:
    """Fit a linear tagger on frozen features, those of the first token of each word."""

    model, plan, prepared = inputs.model, inputs.plan, inputs.prepared
    assert model is not None
    assert prepared.task.head.collect_words is not None
    if plan.pooling is not None:
        raise InputError(f"{prepared.task.name} uses the first token of each word; omit {setting('pooling')}.")
    progress, seed = inputs.events.progress, inputs.settings.seed
    sweep = sweep_words(model, prepared, plan, seed=seed, progress=progress) if plan.layers else None
    layer: Layer | None = plan.layer if sweep is None else sweep.best.layer
    arrange_words = prepared.task.head.collect_words
    train_data = encode_part(model, prepared.parts["train"])
    layer_weights = (
        learn_word_weights(model, train_data, prepared, plan, seed=seed, progress=progress)
        if layer == WEIGHTED
        else None
    )
    layer = layer if layer_weights is None else layer_weights.mixture.weights

    def compute_features(data: PackedDataset) -> Array:
        return compute_word_states(model, data, layer=layer, progress=inputs.stage_progress("features"))

    sample = train_data.select(sample_rows(train_data, MAX_FIT_WORDS, seed))
    linear = fit_tagger(
        compute_features(sample),
        select_tags(sample),
        prepared,
        plan,
        seed=seed,
        progress=inputs.stage_progress(FITTING_STAGE),
    )
    classic = ClassicModel(method="linear", linear=linear)

    def save(folder: Path, trained: TrainingRecord) -> None:
        replace(model, trained=_store_layer_weights(trained, layer_weights)).save(folder)
        save_classic(folder, classic)

    def logits(part: PartRows) -> Any:
        part_data = encode_part(model, part)
        return arrange_words(classic.logits(features=compute_features(part_data)), part_data)

    notes = sweep.notes if sweep is not None else () if layer_weights is None else (layer_weights.note,)
    if len(sample) < len(train_data):
        notes = (*notes, f"The linear model was fitted on {len(sample):,} of {len(train_data):,} training rows.")
    if not linear.converged:
        notes = (*notes, "The logistic regression did not converge; try another strength.")
    return FittedMethod(logits=logits, save=save, notes=notes, sweep=sweep, per_word=True, model=model)


def _store_layer_weights(trained: TrainingRecord, layer_weights: LayerWeights | None) -> TrainingRecord:
    """Add fitted layer weights to the training record."""
    if layer_weights is None:
        return trained
    return replace(trained, layer_scores=list(layer_weights.mixture.scores), layer_gamma=layer_weights.mixture.gamma)


def fit_tfidf_model(inputs: FitInputs) -> FittedMethod:
    """Fit a linear model on TF-IDF features."""

    prepared = inputs.prepared
    train = prepared.parts["train"]
    inputs.events.progress("counting words", 0, None)
    tfidf, matrix = fit_tfidf(train.texts, pairs=prepared.columns.text_b is not None)
    linear = fit_linear(
        matrix,
        train.targets,
        prepared.space,
        strength=inputs.plan.C,
        class_weight=inputs.settings.class_weight,
        seed=inputs.settings.seed,
        progress=inputs.stage_progress(FITTING_STAGE),
    )
    return _make_classic_method(ClassicModel(method="tfidf", tfidf=tfidf, linear=linear))


def fit_majority(inputs: FitInputs) -> FittedMethod:
    """Always predict the most frequent answer, which every other method has to beat."""

    majority = fit_majority_class(inputs.prepared.parts["train"].targets, inputs.prepared.space)
    return _make_classic_method(ClassicModel(method="majority", majority=majority))


def _make_classic_method(classic: ClassicModel) -> FittedMethod:
    def logits(part: PartRows) -> Array:
        import numpy as np

        texts, chunk_logits = part.texts(), []
        while chunk := list(islice(texts, CHUNK_TEXTS)):
            second_texts = None if part.columns.text_b is None else [second or "" for _, second in chunk]
            chunk_logits.append(classic.logits([first for first, _ in chunk], second_texts))
        return np.concatenate(chunk_logits)

    def save(folder: Path, trained: TrainingRecord) -> None:
        from clearhead import __version__

        save_classic(folder, classic)
        write_passport(folder, Passport(clearhead=__version__, labels=trained.labels, trained=trained))

    return FittedMethod(logits=logits, save=save)


FIT_METHODS: dict[str, Callable[[FitInputs], FittedMethod]] = {
    "finetune": fit_network,
    "head": fit_network,
    "features": fit_features,
    "tfidf": fit_tfidf_model,
    "majority": fit_majority,
}
