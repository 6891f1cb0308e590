"""Export a model as ONNX: a new folder with the graph, the tokenizer, and a description of inputs and outputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clearhead.aspects.predictor import MODEL_ROLES as TWO
from clearhead.caller import setting
from clearhead.checkpoint.config import build_config
from clearhead.checkpoint.folder import AUTO, read_checkpoint
from clearhead.checkpoint.hub import locate
from clearhead.checkpoint.passport import Passport, read_passport, write_passport
from clearhead.checkpoint.sentence import SentenceModules, read_modules
from clearhead.engine.export import EXPORT_FILE, build_export_graph, describe_graph, write_model
from clearhead.errors import InputError
from clearhead.files import atomic_folder, check_output_folder, to_printable, write_json
from clearhead.jobs.kinds import kind_of
from clearhead.model.loading import load
from clearhead.model.model import Model
from clearhead.model.saving import GENERATION
from clearhead.progress import Progress, no_progress
from clearhead.shape import Pooling
from clearhead.tasks import TASKS

EXPORTABLE_METHODS = ("finetune", "head")  # methods whose predictions are computed by the network alone
INT8_NOTE = (
    "int8 activations share one scale per call: run one text per call, so that results do not depend on the batch."
)
ACTIVATIONS = {"multilabel": "sigmoid", "number": "none"}  # activation by kind of labels; softmax for all others
ROW_LAYOUTS = {"choice": "one per option", "span": "one per question with its passage"}


def run_export(
    reference: str | os.PathLike[str],
    target: Path,
    *,
    portable: bool = False,
    precision: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Export a model as ONNX to a new folder; after an error, no folder is left behind."""
    check_output_folder(target)
    folder = locate(reference, progress=progress).folder
    model_name = to_printable(reference)
    if kind_of(folder) == "aspect model":
        subfolders = " and ".join(f"{model_name}/{name}" for name in TWO)
        raise InputError(f"{model_name} contains two models; export them separately: {subfolders}.")
    sentences = read_modules(folder)
    _check_network(read_passport(folder if sentences is None else sentences.encoder), model_name)
    model = load(folder, "engine", head=_choose_head(sentences), precision=precision)
    with atomic_folder(target) as new_folder:
        _write_export(new_folder, model, portable=portable, progress=progress or no_progress)
    return target


def _check_network(passport: Passport | None, name: str) -> None:
    """Raise InputError for a model that ONNX cannot represent: without a network, or with a linear model after it."""
    method = "finetune" if passport is None or passport.trained is None else passport.trained.method
    if method == "features":
        raise InputError(
            f"{name} was trained with features: its predictions come from a linear model on top of the network, "
            f"which an export would leave out; train with {setting('method', 'finetune', of='train')} instead."
        )
    if method not in EXPORTABLE_METHODS:
        raise InputError(f"{name} was trained with {to_printable(method, 40)}, which has no network to export.")


def _choose_head(sentences: SentenceModules | None) -> str | None:
    """Choose the exported head: none for a sentence encoder, even if its file contains one."""
    if sentences is None or sentences.pooling.origin == Pooling().origin:
        return AUTO
    checkpoint = read_checkpoint(sentences.encoder)
    return AUTO if checkpoint.shape.head is None or checkpoint.has_mean_head else None


def _write_export(folder: Path, model: Model, *, portable: bool, progress: Progress) -> None:
    runner: Any = model.runner
    notes: list[str] = []
    pooling = _choose_pooling(model, notes)
    if runner.precision == "int8":
        notes.append(INT8_NOTE)
    graph = build_export_graph(
        model.shape, runner.tensors, portable=portable, pooling=pooling, dense=model.dense, int8=runner.int8
    )
    write_model(folder, graph, progress)
    config = build_config(model.config, model.family, model.head, model.shape, model.labels)
    write_json(folder / "config.json", config)
    if model.generation is not None:
        write_json(folder / GENERATION, dict(model.generation))
    if model.source_tokenizer is not None:
        model.source_tokenizer.save(folder)
    if model.passport is not None:
        write_passport(folder, model.passport)
    facts = (
        describe_graph(graph) | {"precision": runner.precision} | _describe_model(model) | _describe_calibration(model)
    )
    facts |= {} if pooling is None else {"pooling": _describe_pooling(pooling)}
    write_json(folder / EXPORT_FILE, facts | {"notes": notes})


def _choose_pooling(model: Model, notes: list[str]) -> Pooling | None:
    """Return the pooling of a sentence encoder, or None (with a note) if a graph cannot represent it."""
    pooling = model.pooling
    if model.shape.head is not None or pooling.origin == Pooling().origin:
        return None
    if not pooling.include_prompt and pooling.prompts:
        notes.append(
            "There is no sentence_embedding output: this model excludes prompt tokens from the mean, and the graph "
            "cannot identify them; pool last_hidden_state yourself."
        )
        return None
    return pooling


def _describe_model(model: Model) -> dict[str, Any]:
    """Describe what a user of the graph needs to prepare inputs and to interpret outputs."""
    shape = model.shape
    description: dict[str, Any] = {"family": model.family.model_type, "head": model.head}
    if shape.head is not None:
        description["labels"] = (
            list(model.labels) if model.has_labels else ["start", "end"] if model.head == "span" else []
        )
        description["rows"] = ROW_LAYOUTS.get(str(shape.head.kind), "one per text")
    description |= {"pad": shape.stack.pad_id, "max_length": model.max_length(model.pooling)}
    return description | ({"start": shape.decoder_start_id} if shape.decoder is not None else {})


def _describe_calibration(model: Model) -> dict[str, Any]:
    """Describe how `predict` converts logits to predictions, so that other software can reproduce them."""
    trained = model.trained
    if trained is None or trained.task not in TASKS:
        return {}
    # applied to logits divided by the temperature
    calibration: dict[str, Any] = {"activation": ACTIVATIONS.get(trained.kind, "softmax")}
    if trained.kind != "number":
        calibration["temperature"] = trained.temperature
    if trained.kind == "multilabel":
        thresholds = trained.thresholds or [0.5] * len(trained.labels)
        calibration["thresholds"] = dict(zip(trained.labels, thresholds, strict=True))
    if TASKS[trained.task].answers.max_candidates:
        calibration |= {"no_answer": trained.no_answer, "max_answer": trained.max_answer}
    calibration["abstain_below"] = trained.abstain_below
    return {"task": trained.task, "calibration": calibration}


def _describe_pooling(pooling: Pooling) -> dict[str, Any]:
    """Describe how texts are prepared and how the graph pools tokens."""
    return {
        "modes": list(pooling.modes),
        "dense": [{"outputs": step.outputs, "activation": step.activation} for step in pooling.dense],
        "normalize": pooling.normalize,
        "lower": pooling.lowercase,
        "prompts": dict(pooling.prompts),
        "default_prompt": pooling.default_prompt,
    }
