"""A trained folder, or a checkpoint of others with a head for labels, as a `Predictor`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting, verb
from clearhead.checkpoint.activation import Activation, read_activation
from clearhead.checkpoint.hub import locate
from clearhead.checkpoint.passport import Passport, TrainingRecord, check_label_names, read_passport
from clearhead.checkpoint.sentence import read_modules
from clearhead.classic import load_classic
from clearhead.data import LabelSpace
from clearhead.data.row_codec import MAX_TOKENS_SETTING, LengthPolicy
from clearhead.errors import CheckpointError, InputError
from clearhead.files import to_printable
from clearhead.jobs.kinds import has_vectors
from clearhead.model.loading import load
from clearhead.predict.passport_layer import resolve_passport_layer
from clearhead.predict.predictor import Predictor
from clearhead.predict.scoring import ClassicScorer, FeatureScorer, NetworkScorer, Scorer, VectorScorer
from clearhead.progress import Progress
from clearhead.tasks import Calibration, Task, get_task
from clearhead.tasks.orders import read_in_both_orders
from clearhead.tasks.registry import infer_checkpoint_task
from clearhead.words import load_vectors

if TYPE_CHECKING:
    import numpy as np

    from clearhead.model import Model

    Array = np.ndarray[Any, Any]

log = logging.getLogger("clearhead")

OTHER_HEADS = {
    "masked": ("guesses hidden words", "fill"),
    "pretraining": ("guesses hidden words", "fill"),
    "causal": ("continues texts", "generate"),
    "seq2seq": ("writes texts", "translate"),
}
MAX_ANSWER_TOKENS = 10_000  # tokens


def load_predictor(
    reference: str | Path,
    *,
    device: str = "auto",
    abstain_below: float | None = None,
    precision: str | None = None,
    threads: int | None = None,
    weights: Model | None = None,
    progress: Progress | None = None,
) -> Predictor:
    """A folder that `train` made, or any checkpoint whose head gives labels.

    `weights`: a model in memory that has the weights of the folder.
    """

    folder = locate(reference, progress=progress).folder
    passport = _read_passport(folder)
    trained = None if passport is None else passport.trained
    if abstain_below is not None and not 0 <= abstain_below <= 1:
        raise InputError(f"{setting('abstain_below')} must be from 0 to 1, got {abstain_below}.")
    if trained is not None and trained.task == "translate":
        raise InputError(f"{reference} translates: use {verb('translate')}.")
    loaded = partial(load, reference, device=device, precision=precision, threads=threads, weights=weights)
    if trained is None:
        model = loaded(progress=progress)
        return _build_checkpoint_predictor(str(reference), folder, model, abstain_below)
    calibration = Calibration(
        temperature=trained.temperature,
        thresholds=tuple(trained.thresholds),
        abstain_below=trained.abstain_below if abstain_below is None else abstain_below,
        no_answer=trained.no_answer,
    )
    space = _build_label_space(trained)
    task = _resolve_task(trained)
    if abstain_below is not None:
        _check_abstention(task, str(reference), space)
    return Predictor(
        task=task,
        space=space,
        calibration=_check_calibration(calibration, space),
        scorer=_load_scorer(folder, trained, loaded),
        method=trained.method,
        reference=str(reference),
        folder=folder,
        trained=trained,
    )


def _read_passport(folder: Path) -> Passport | None:
    sentences = read_modules(folder)
    return read_passport(folder if sentences is None else sentences.encoder)


def _resolve_task(trained: TrainingRecord) -> Task:
    """The task of a passport, which its labels and columns must allow."""
    task = get_task(trained.task)
    second = "text_b" in trained.columns
    if trained.settings.get("both_orders") is True and second and task.rows.is_reversible:
        task = read_in_both_orders(task)
    if trained.kind not in task.rows.label_kinds or task.rows.layout.second_text not in (None, second):
        raise CheckpointError(f"clearhead.json: {task.name} does not go with its labels or columns.")
    return task


def _build_label_space(trained: TrainingRecord) -> LabelSpace:
    return LabelSpace(
        names=tuple(trained.labels), kind=trained.kind, separator=trained.separator, scheme=trained.scheme
    )


def _load_scorer(folder: Path, trained: TrainingRecord, loaded: Callable[[], Model]) -> Scorer:
    task = _resolve_task(trained)
    if trained.method in ("finetune", "head"):
        model = loaded()
        if model.shape.head is None or model.shape.head.kind != task.head.kind:
            raise CheckpointError(f"{folder} was trained to {to_printable(trained.task, 40)}, and its head is gone.")
        if task.head.outputs_are_labels and list(model.labels) != list(
            task.head.output_names(_build_label_space(trained))
        ):
            raise CheckpointError(f"{folder}: config.json and clearhead.json name different labels.")
        return NetworkScorer(model=model, fit=_build_length_policy(trained, model), task=task)
    if trained.method not in ("features", "tfidf", "majority"):
        raise CheckpointError(
            f"clearhead.json names the method {to_printable(trained.method, 40)!r}, which is not known."
        )

    classic = load_classic(folder)
    count = 1 if trained.kind == "number" else len(trained.labels)
    if classic.outputs != count:
        raise CheckpointError(f"{folder} has {classic.outputs} outputs for {count} labels.")
    if trained.method == "features" and has_vectors(folder):
        return VectorScorer(vectors=load_vectors(folder), classic=classic)
    if trained.method == "features":
        model = loaded()
        pooling = tuple(trained.pooling) or None
        layer = resolve_passport_layer(trained, model.shape.stack.layers)
        return FeatureScorer(
            model=model,
            fit=_build_length_policy(trained, model),
            classic=classic,
            layer=layer,
            pooling=pooling,
            task=task,
            separate=trained.pairs == "separate",
        )
    return ClassicScorer(classic=classic)


def _build_length_policy(trained: TrainingRecord, model: Model) -> LengthPolicy:
    """Texts are cut or windowed as in training, if the model can read that much."""
    most, said = model.max_length(), trained.max_length
    fits = most is None if said is None else 1 <= said <= (most or said)
    sane = trained.stride >= 0 and 1 <= trained.max_answer <= MAX_ANSWER_TOKENS
    sane = sane and (trained.max_tokens is None or 1 <= trained.max_tokens <= MAX_TOKENS_SETTING)
    if not fits or trained.long not in ("window", "cut") or not sane:
        raise CheckpointError("clearhead.json: its max_length, long, stride, max_answer or max_tokens do not fit.")
    return LengthPolicy(
        max_length=said,
        long=trained.long,
        stride=trained.stride,
        max_answer=trained.max_answer,
        max_tokens=trained.max_tokens,
    )


def _build_checkpoint_predictor(reference: str, folder: Path, model: Model, abstain_below: float | None) -> Predictor:
    """A checkpoint of others: its head and config.json tell what it answers."""
    head = None if model.shape.head is None else str(model.shape.head.kind)
    found = None if head is None else infer_checkpoint_task(head, tuple(model.labels), model.config)
    if found is None:
        does, use = OTHER_HEADS.get(str(model.head), ("turns texts into vectors", "embed"))
        work = f"it {does} ({verb(use)})"
        raise InputError(f"{reference} was not trained to answer with labels: {work}; train one with {verb('train')}.")
    task, space = found
    check_label_names(space.names, "config.json")
    activation: Activation = "identity"
    if task.rows.label_counter is None:
        activation, warning = read_activation(model.config, len(model.labels))
        if warning is not None:
            log.warning("%s: %s", reference, warning)
    if abstain_below is not None:
        _check_abstention(task, reference, space)
    most, stride = task.rows.window_defaults
    length = min((limit for limit in (most, model.max_length()) if limit is not None), default=None)
    fit = LengthPolicy(max_length=length, stride=stride if length is None else min(stride, length // 3))
    return Predictor(
        task=task,
        space=space,
        calibration=Calibration(
            abstain_below=abstain_below, activation=activation if space.kind == "number" else "identity"
        ),
        scorer=NetworkScorer(model=model, fit=fit, task=task),
        method="finetune",
        reference=reference,
        folder=folder,
    )


def _check_abstention(task: Task, reference: str, space: LabelSpace) -> None:
    if space.kind == "number":
        sure = f"answers with numbers, and {task.name} is never unsure"
        raise InputError(f"{reference} {sure}; leave {setting('abstain_below')} out.")


def _check_calibration(calibration: Calibration, space: LabelSpace) -> Calibration:
    """Refuse numbers in a passport that cannot be."""
    sane = 0.001 <= calibration.temperature <= 1000
    sane = sane and (calibration.abstain_below is None or 0 <= calibration.abstain_below <= 1)
    sane = sane and all(threshold == threshold for threshold in calibration.thresholds)
    sane = sane and (calibration.no_answer is None or abs(calibration.no_answer) < float("inf"))
    if not sane or (calibration.thresholds and len(calibration.thresholds) != len(space)):
        raise CheckpointError("clearhead.json has a temperature or thresholds that do not fit its labels.")
    return calibration
