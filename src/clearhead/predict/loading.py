"""Loading a `Predictor` from a trained folder, or from any checkpoint with a labeling head."""

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
    "masked": ("predicts masked tokens", "fill"),
    "pretraining": ("predicts masked tokens", "fill"),
    "causal": ("continues texts", "generate"),
    "seq2seq": ("writes texts", "translate"),
}
MAX_ANSWER_TOKENS = 10_000


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
    """Load a folder that `train` wrote, or any checkpoint whose head predicts labels.

    `weights` is a model in memory with the weights of the folder.
    """

    folder = locate(reference, progress=progress).folder
    passport = _read_passport(folder)
    trained = None if passport is None else passport.trained
    if abstain_below is not None and not 0 <= abstain_below <= 1:
        raise InputError(f"{setting('abstain_below')} must be from 0 to 1, got {abstain_below}.")
    if trained is not None and trained.task == "translate":
        raise InputError(f"{reference} is a translation model; use {verb('translate')}.")
    load_model = partial(load, reference, device=device, precision=precision, threads=threads, weights=weights)
    if trained is None:
        model = load_model(progress=progress)
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
        scorer=_load_scorer(folder, trained, load_model),
        method=trained.method,
        reference=str(reference),
        folder=folder,
        trained=trained,
    )


def _read_passport(folder: Path) -> Passport | None:
    sentences = read_modules(folder)
    return read_passport(folder if sentences is None else sentences.encoder)


def _resolve_task(trained: TrainingRecord) -> Task:
    """Resolve the task of a passport, and check that its labels and columns fit."""
    task = get_task(trained.task)
    has_second_text = "text_b" in trained.columns
    if trained.settings.get("both_orders") is True and has_second_text and task.rows.is_reversible:
        task = read_in_both_orders(task)
    if trained.kind not in task.rows.label_kinds or task.rows.layout.second_text not in (None, has_second_text):
        raise CheckpointError(f"clearhead.json: the labels or columns do not fit the task {task.name}.")
    return task


def _build_label_space(trained: TrainingRecord) -> LabelSpace:
    return LabelSpace(
        names=tuple(trained.labels), kind=trained.kind, separator=trained.separator, scheme=trained.scheme
    )


def _load_scorer(folder: Path, trained: TrainingRecord, load_model: Callable[[], Model]) -> Scorer:
    task = _resolve_task(trained)
    if trained.method in ("finetune", "head"):
        model = load_model()
        if model.shape.head is None or model.shape.head.kind != task.head.kind:
            raise CheckpointError(f"{folder} was trained for {to_printable(trained.task, 40)}, but has no such head.")
        if task.head.outputs_are_labels and list(model.labels) != list(
            task.head.output_names(_build_label_space(trained))
        ):
            raise CheckpointError(f"{folder}: config.json and clearhead.json name different labels.")
        return NetworkScorer(model=model, length_policy=_build_length_policy(trained, model), task=task)
    if trained.method not in ("features", "tfidf", "majority"):
        raise CheckpointError(f"clearhead.json names an unknown method: {to_printable(trained.method, 40)!r}.")

    classic = load_classic(folder)
    expected_outputs = 1 if trained.kind == "number" else len(trained.labels)
    if classic.outputs != expected_outputs:
        raise CheckpointError(f"{folder} has {classic.outputs} outputs for {expected_outputs} labels.")
    if trained.method == "features" and has_vectors(folder):
        return VectorScorer(vectors=load_vectors(folder), classic=classic)
    if trained.method == "features":
        model = load_model()
        pooling = tuple(trained.pooling) or None
        layer = resolve_passport_layer(trained, model.shape.stack.layers)
        return FeatureScorer(
            model=model,
            length_policy=_build_length_policy(trained, model),
            classic=classic,
            layer=layer,
            pooling=pooling,
            task=task,
            separate=trained.pairs == "separate",
        )
    return ClassicScorer(classic=classic)


def _build_length_policy(trained: TrainingRecord, model: Model) -> LengthPolicy:
    """Truncate or split texts as in training; refuse lengths that the model cannot read."""
    model_limit, max_length = model.max_length(), trained.max_length
    has_valid_length = model_limit is None if max_length is None else 1 <= max_length <= (model_limit or max_length)
    has_valid_windows = trained.stride >= 0 and 1 <= trained.max_answer <= MAX_ANSWER_TOKENS
    has_valid_windows = has_valid_windows and (
        trained.max_tokens is None or 1 <= trained.max_tokens <= MAX_TOKENS_SETTING
    )
    if not has_valid_length or trained.long not in ("window", "cut") or not has_valid_windows:
        raise CheckpointError("clearhead.json: invalid max_length, long, stride, max_answer or max_tokens.")
    return LengthPolicy(
        max_length=max_length,
        long=trained.long,
        stride=trained.stride,
        max_answer=trained.max_answer,
        max_tokens=trained.max_tokens,
    )


def _build_checkpoint_predictor(reference: str, folder: Path, model: Model, abstain_below: float | None) -> Predictor:
    """Build the predictor of a checkpoint without a passport; its head and config.json define the task."""
    head = None if model.shape.head is None else str(model.shape.head.kind)
    task_and_labels = None if head is None else infer_checkpoint_task(head, tuple(model.labels), model.config)
    if task_and_labels is None:
        ability, verb_name = OTHER_HEADS.get(str(model.head), ("turns texts into vectors", "embed"))
        alternative = f"it {ability} ({verb(verb_name)})"
        raise InputError(f"{reference} does not predict labels: {alternative}; train one with {verb('train')}.")
    task, space = task_and_labels
    check_label_names(space.names, "config.json")
    activation: Activation = "identity"
    if task.rows.label_counter is None:
        activation, warning = read_activation(model.config, len(model.labels))
        if warning is not None:
            log.warning("%s: %s", reference, warning)
    if abstain_below is not None:
        _check_abstention(task, reference, space)
    task_length, stride = task.rows.window_defaults
    max_length = min((limit for limit in (task_length, model.max_length()) if limit is not None), default=None)
    length_policy = LengthPolicy(
        max_length=max_length, stride=stride if max_length is None else min(stride, max_length // 3)
    )
    return Predictor(
        task=task,
        space=space,
        calibration=Calibration(
            abstain_below=abstain_below, activation=activation if space.kind == "number" else "identity"
        ),
        scorer=NetworkScorer(model=model, length_policy=length_policy, task=task),
        method="finetune",
        reference=reference,
        folder=folder,
    )


def _check_abstention(task: Task, reference: str, space: LabelSpace) -> None:
    if space.kind == "number":
        problem = f"predicts numbers ({task.name}), which have no confidence"
        raise InputError(f"{reference} {problem}; omit {setting('abstain_below')}.")


def _check_calibration(calibration: Calibration, space: LabelSpace) -> Calibration:
    """Refuse a calibration that is out of range or does not fit the labels."""
    is_valid = 0.001 <= calibration.temperature <= 1000
    is_valid = is_valid and (calibration.abstain_below is None or 0 <= calibration.abstain_below <= 1)
    is_valid = is_valid and all(threshold == threshold for threshold in calibration.thresholds)
    is_valid = is_valid and (calibration.no_answer is None or abs(calibration.no_answer) < float("inf"))
    if not is_valid or (calibration.thresholds and len(calibration.thresholds) != len(space)):
        raise CheckpointError(
            "clearhead.json: the temperature or thresholds are out of range or do not fit the labels."
        )
    return calibration
