"""A whole export: a model is read, and a new folder gets its graph, its tokenizer and what to know of both."""

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

EXPORTABLE_METHODS = ("finetune", "head")  # methods whose answers come out of the network itself
INT8_NOTE = "In eight bits a call has one scale: give one text a call, and no neighbour changes an answer."
ACTIVATIONS = {"multilabel": "sigmoid", "number": "none"}  # of other labels: softmax
ROW_LAYOUTS = {"choice": "one per option", "span": "one per question with its passage"}


def run_export(
    reference: str | os.PathLike[str],
    target: Path,
    *,
    portable: bool = False,
    precision: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write a model as ONNX into a new folder, which is whole or not there."""
    check_output_folder(target)
    folder = locate(reference, progress=progress).folder
    said = to_printable(reference)
    if kind_of(folder) == "aspect model":
        each = " and ".join(f"{said}/{name}" for name in TWO)
        raise InputError(f"{said} holds two models; export {each}, each on its own.")
    sentences = read_modules(folder)
    _check_network(read_passport(folder if sentences is None else sentences.encoder), said)
    model = load(folder, "engine", head=_choose_head(sentences), precision=precision)
    with atomic_folder(target) as place:
        _write_export(place, model, portable=portable, progress=progress or no_progress)
    return target


def _check_network(passport: Passport | None, said: str) -> None:
    """Refuse what an ONNX file would not hold: models without a network, or with something beside it."""
    method = "finetune" if passport is None or passport.trained is None else passport.trained.method
    if method == "features":
        raise InputError(
            f"{said} was trained with features: its answers come from a linear model beside the network, which an "
            f"export would leave out; train with {setting('method', 'finetune', of='train')} instead."
        )
    if method not in EXPORTABLE_METHODS:
        raise InputError(f"{said} was trained with {to_printable(method, 40)}, which has no network to export.")


def _choose_head(sentences: SentenceModules | None) -> str | None:
    """The head that is written: none for a sentence encoder, whatever else its file holds."""
    if sentences is None or sentences.pooling.origin == Pooling().origin:
        return AUTO
    read = read_checkpoint(sentences.encoder)
    return AUTO if read.shape.head is None or read.has_mean_head else None


def _write_export(place: Path, model: Model, *, portable: bool, progress: Progress) -> None:
    runner: Any = model.runner
    notes: list[str] = []
    pooling = _choose_pooling(model, notes)
    if runner.precision == "int8":
        notes.append(INT8_NOTE)
    g = build_export_graph(
        model.shape, runner.tensors, portable=portable, pooling=pooling, dense=model.dense, int8=runner.int8
    )
    write_model(place, g, progress)
    config = build_config(model.config, model.family, model.head, model.shape, model.labels)
    write_json(place / "config.json", config)
    if model.generation is not None:
        write_json(place / GENERATION, dict(model.generation))
    if model.source_tokenizer is not None:
        model.source_tokenizer.save(place)
    if model.passport is not None:
        write_passport(place, model.passport)
    facts = describe_graph(g) | {"precision": runner.precision} | _describe_model(model) | _describe_calibration(model)
    facts |= {} if pooling is None else {"pooling": _describe_pooling(pooling)}
    write_json(place / EXPORT_FILE, facts | {"notes": notes})


def _choose_pooling(model: Model, notes: list[str]) -> Pooling | None:
    """How a sentence encoder pools, as far as a graph can say it."""
    pooling = model.pooling
    if model.shape.head is not None or pooling.origin == Pooling().origin:
        return None
    if not pooling.include_prompt and pooling.prompts:
        notes.append(
            "There is no sentence_embedding: this model leaves the words of a prompt out of the mean, and a graph does "
            "not know them; pool last_hidden_state yourself."
        )
        return None
    return pooling


def _describe_model(model: Model) -> dict[str, Any]:
    """What must be known of the model to feed it and to read its answers."""
    shape = model.shape
    made: dict[str, Any] = {"family": model.family.model_type, "head": model.head}
    if shape.head is not None:
        made["labels"] = list(model.labels) if model.has_labels else ["start", "end"] if model.head == "span" else []
        made["rows"] = ROW_LAYOUTS.get(str(shape.head.kind), "one per text")
    made |= {"pad": shape.stack.pad_id, "max_length": model.max_length(model.pooling)}
    return made | ({"start": shape.decoder_start_id} if shape.decoder is not None else {})


def _describe_calibration(model: Model) -> dict[str, Any]:
    """How `predict` makes answers out of the logits, so that another reader comes to the same ones."""
    trained = model.trained
    if trained is None or trained.task not in TASKS:
        return {}
    # what turns logits, divided by the temperature, into probabilities
    made: dict[str, Any] = {"activation": ACTIVATIONS.get(trained.kind, "softmax")}
    if trained.kind != "number":
        made["temperature"] = trained.temperature
    if trained.kind == "multilabel":
        limits = trained.thresholds or [0.5] * len(trained.labels)
        made["thresholds"] = dict(zip(trained.labels, limits, strict=True))
    if TASKS[trained.task].answers.max_candidates:
        made |= {"no_answer": trained.no_answer, "max_answer": trained.max_answer}
    made["abstain_below"] = trained.abstain_below
    return {"task": trained.task, "calibration": made}


def _describe_pooling(pooling: Pooling) -> dict[str, Any]:
    """How texts are prepared, and what the graph does with their words."""
    return {
        "modes": list(pooling.modes),
        "dense": [{"outputs": step.outputs, "activation": step.activation} for step in pooling.dense],
        "normalize": pooling.normalize,
        "lower": pooling.lowercase,
        "prompts": dict(pooling.prompts),
        "default_prompt": pooling.default_prompt,
    }
