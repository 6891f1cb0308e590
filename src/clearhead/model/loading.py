"""Loads models from a folder, the hub or an alias, and checks tokenizer, labels and passport."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.activation import merge_cross_encoder_settings
from clearhead.checkpoint.config import detect_model_type, read_config
from clearhead.checkpoint.folder import AUTO, Checkpoint, read_checkpoint
from clearhead.checkpoint.hub import locate
from clearhead.checkpoint.mean_head import drop_mean_head_modules
from clearhead.checkpoint.passport import Passport, check_labels, check_tokenization, read_passport
from clearhead.checkpoint.sentence import check_dense_widths, read_modules, uses_mean_pooling
from clearhead.checkpoint.weights import list_tensors, resolve_inside
from clearhead.errors import CheckpointError, InputError, MissingExtraError, TokenizerError, UnsafeError
from clearhead.families import FAMILIES
from clearhead.files import read_json, to_printable
from clearhead.machine.threads import load_torch
from clearhead.model.model import Model
from clearhead.model.runtime import PRECISIONS, RUNTIMES, copy_aligned, engine_runner, runs_engine, shared_arrays
from clearhead.model.saving import GENERATION
from clearhead.progress import Progress
from clearhead.shape import ModelShape, Pooling
from clearhead.tensors import PrunedHeads, check_pruned
from clearhead.text import load_tokenizer

if TYPE_CHECKING:
    import numpy as np

    from clearhead.core.models import Network
    from clearhead.core.runner import CoreRunner
    from clearhead.text import Tokenizer

    Array = np.ndarray[Any, Any]

log = logging.getLogger("clearhead")
HEAD_POOLINGS = ("auto", "first", "mean")
TOKENIZER_FILES = (".json", ".txt", ".bpe", ".model", ".spm")  # `text` opens them by name; links are checked here


def load(
    reference: str | os.PathLike[str] = "default",
    runtime: str = "auto",
    device: str = "auto",
    *,
    head: str | None = AUTO,
    labels: Sequence[str] | None = None,
    offline: bool | None = None,
    seed: int = 0,
    fresh: bool = False,
    precision: str | None = None,
    threads: int | None = None,
    head_pooling: str | None = None,
    weights: Model | Mapping[str, Array] | None = None,
    progress: Progress | None = None,
) -> Model:
    """Load a model from a folder, a hub id (`org/name@revision`) or an alias.

    `head` defaults to the one that was saved; another name ("classify", "tag", "span", "choice", "masked", ...) puts a
    new head on the same encoder, and None loads only the encoder. A head that the checkpoint does not have is
    initialized from `seed`, with a warning unless it is going to be trained (`fresh`).
    `runtime` is the engine (ONNX Runtime on the CPU, on `threads` cores) or the core (torch). "auto" uses the engine
    where possible, and loads the core beside it when a trace, a gradient or a pruned head needs it.
    `precision` is "float" or "int8"; the default is int8 if `clearhead quantize` approved it, else float.
    `head_pooling` is the input of a classify head: "first" is the state of the first token, as in transformers; "mean"
    is the mean of all states; "auto" uses the mean for a new head if the folder pools by mean. None: as saved, or
    "first".
    `weights` are already loaded weights of the same files, which are not read again: a model, whose tensors an engine
    shares, or tensors by name, which an engine shares and the core copies.
    `progress` is called with (file, bytes done, total bytes) during a download.
    """

    if runtime not in RUNTIMES:
        raise InputError(f"runtime must be one of {', '.join(RUNTIMES)}, got {runtime!r}.")
    if precision not in (None, *PRECISIONS):
        raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}.")
    if precision == "int8" and runtime == "core":
        raise InputError("int8 runs in the engine: omit runtime, or use runtime='engine'.")
    if head_pooling not in (None, *HEAD_POOLINGS):
        raise InputError(f"head_pooling must be one of auto, first, mean, got {to_printable(head_pooling, 40)!r}.")
    located = locate(reference, offline=offline, progress=progress)
    sentences = read_modules(located.folder)
    model_folder = located.folder if sentences is None else sentences.encoder
    is_auto_pooling = head_pooling == "auto"
    if is_auto_pooling:
        head_pooling = "mean" if sentences is not None and uses_mean_pooling(sentences.pooling) else None
    checkpoint = read_checkpoint(model_folder, head, _check_labels(labels), head_pooling, keep_head=is_auto_pooling)
    if checkpoint.has_mean_head:
        sentences = drop_mean_head_modules(sentences)
    if sentences is not None:
        check_dense_widths(sentences.pooling, checkpoint.shape.stack.width)
    passport = read_passport(model_folder)
    if passport is not None and head == AUTO and labels is None:
        check_labels(passport, checkpoint.labels)
    source, target = _load_tokenizers(model_folder, checkpoint.family.model_type, checkpoint.config, passport)
    pruned = _read_pruned_heads(checkpoint.shape, passport)
    engine = runs_engine("engine" if precision == "int8" else runtime, device, checkpoint)
    for warning in checkpoint.warnings:
        log.warning("%s", warning)
    for note in checkpoint.notes:
        log.log(logging.WARNING if checkpoint.new_tensors and not fresh else logging.INFO, "%s", note)

    loaded_weights = weights.runner.weights() if isinstance(weights, Model) else weights
    weights_to_copy = None if isinstance(weights, Model) else weights

    def core() -> CoreRunner:
        return _core_runner(_build_network(checkpoint, pruned, seed, weights_to_copy), device)

    return Model(
        runner=engine_runner(checkpoint, pruned, threads, passport, precision, source, loaded_weights)
        if engine
        else core(),
        make_core=core if engine else None,
        config=checkpoint.config
        if checkpoint.head != "classify"
        else merge_cross_encoder_settings(checkpoint.config, located.folder),
        family=checkpoint.family,
        head=checkpoint.head,
        labels=checkpoint.labels,
        source_tokenizer=source,
        target_tokenizer=target,
        pooling=Pooling() if sentences is None else sentences.pooling,
        dense=() if sentences is None else sentences.dense,
        generation=read_json(resolve_inside(model_folder, GENERATION))
        if (model_folder / GENERATION).exists()
        else None,
        notes=(*checkpoint.warnings, *checkpoint.notes),
        fresh=checkpoint.new_tensors,
        reference=str(reference),
        passport=passport,
        trained=passport.trained if passport is not None and head == AUTO and labels is None else None,
    )


def create(
    family: str,
    preset: str | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    head: str | None = None,
    labels: Sequence[str] = ("LABEL_0", "LABEL_1"),
    tokenizer: Tokenizer | None = None,
    device: str = "auto",
    seed: int = 0,
) -> Model:
    """Create a model with new weights: a family, an optional preset size, and keys of its config.json."""
    require_torch("Making a model")
    from clearhead.core.build import build_network

    names = _check_labels(labels) or ()
    tokenizer_config = {} if tokenizer is None else {"vocab_size": tokenizer.vocab_size}
    full_config, shape = new_shape(family, preset, {**tokenizer_config, **(config or {})}, head, len(names))
    family_info = FAMILIES[family]
    stack = shape.stack
    if tokenizer is not None:
        longest = stack.max_length if stack.positions == "learned" else None
        tokenizer = tokenizer.copy_for_model(longest, segments=stack.segments > 1)
    return Model(
        runner=_core_runner(build_network(shape, seed=seed), device),
        config=full_config,
        family=family_info,
        head=head,
        labels=names,
        source_tokenizer=tokenizer,
        reference=f"new {family_info.title}",
    )


def new_shape(
    family: str, preset: str | None, config: Mapping[str, Any], head: str | None, labels: int = 0
) -> tuple[dict[str, Any], ModelShape]:
    """Resolve the config and the architecture of a new model."""
    if family not in FAMILIES:
        raise InputError(f"Unknown family {family!r}, expected one of: {', '.join(FAMILIES)}.")
    family_info = FAMILIES[family]
    if preset is not None and preset not in family_info.presets:
        raise InputError(f"{family_info.title} has no preset {preset!r}; it has {', '.join(family_info.presets)}.")
    full_config = {**({} if preset is None else family_info.preset_config(preset, config)), **config}
    if unknown := sorted(full_config.keys() - family_info.config_keys.keys()):
        raise InputError(
            f"{family_info.title} has no key {unknown[0]!r} in its config; it has {', '.join(family_info.config_keys)}."
        )
    shape = family_info.model_shape(full_config, head, labels)
    if shape.head is not None and shape.head.tied and full_config.get("tie_word_embeddings") is False:
        shape = replace(shape, head=replace(shape.head, tied=False))  # for a checkpoint, its tensors decide
    return full_config, shape


def _check_labels(labels: Sequence[str] | None) -> tuple[str, ...] | None:
    if labels is None:
        return None
    if isinstance(labels, str) or not all(isinstance(label, str) for label in labels) or not labels:
        raise InputError("labels must be a list of at least one name.")
    if len(set(labels)) != len(labels):
        raise InputError("labels must not contain duplicates.")
    return tuple(labels)


def load_tokenizers(reference: str | os.PathLike[str] = "default") -> tuple[Tokenizer, Tokenizer | None]:
    """Load the tokenizers of a model without its weights: of the input, and of the target if it differs."""

    folder = locate(reference).folder
    sentences = read_modules(folder)
    model_folder = folder if sentences is None else sentences.encoder
    if (
        not (model_folder / "config.json").exists() and (model_folder / "tokenizer.json").is_file()
    ):  # as written by learn-tokenizer
        config, model_type = {}, None
    else:
        config = read_config(model_folder)
        model_type = detect_model_type(config, () if "model_type" in config else list_tensors(model_folder))
    source, target = _load_tokenizers(model_folder, str(model_type), config, read_passport(model_folder))
    if source is None:
        raise CheckpointError(f"{model_folder} has no tokenizer files.")
    return source, target


def _load_tokenizers(
    folder: Path, model_type: str, config: Mapping[str, Any], passport: Passport | None
) -> tuple[Tokenizer | None, Tokenizer | None]:
    for path in _list_entries(folder):
        if path.suffix in TOKENIZER_FILES and not resolve_inside(folder, path.name).is_file():
            raise UnsafeError(f"{to_printable(path.name)} is not a regular file, so it is not opened.")
    if not has_tokenizer(folder):
        if passport is not None and passport.golden:
            raise CheckpointError(f"{folder} was saved with a tokenizer, but its files are missing.")
        return None, None
    try:
        pair = load_tokenizer(folder, model_type, dict(config))
    except TokenizerError as error:
        raise TokenizerError(to_printable(error, 480)) from error  # the message may quote any content of a file
    if passport is not None:
        check_tokenization(passport.golden, pair.source.golden())
        if pair.target is not None:
            check_tokenization(passport.target_golden, pair.target.golden())
    return pair.source, pair.target


def _list_entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {error.strerror or error}.") from error


def has_tokenizer(folder: Path) -> bool:
    """Whether a folder has any tokenizer file."""
    names = ("tokenizer.json", "vocab.txt", "vocab.json", "encoder.json", "source.spm")
    return any((folder / name).exists() for name in names) or any(folder.glob("*.model"))


def _build_network(
    checkpoint: Checkpoint, pruned: PrunedHeads, seed: int, weights: Mapping[str, Array] | None
) -> Network:
    require_torch("Running a model")
    from clearhead.core.build import build_network, convert_to_float32

    arrays = shared_arrays(checkpoint, weights, convert_to_float32, writable=True)
    shared = weights or {}
    private = {name: copy_aligned(array) if array is shared.get(name) else array for name, array in arrays.items()}
    network = build_network(checkpoint.shape, private.items(), seed=seed)
    for part, blocks in pruned.items():
        network.prune({int(block): set(heads) for block, heads in blocks.items()}, part)
    return network


def _read_pruned_heads(shape: ModelShape, passport: Passport | None) -> PrunedHeads:
    """Read the pruned heads of a passport, and check that the model has them."""
    pruned = {} if passport is None else passport.pruned
    try:
        check_pruned(shape, pruned)
    except ValueError as error:
        reason = to_printable(error, 160)
        raise CheckpointError(f"clearhead.json names pruned heads that do not fit the model: {reason}") from None
    return pruned


def _core_runner(network: Network, device: str) -> CoreRunner:
    from clearhead.core.runner import CoreRunner

    return CoreRunner(network, device)


def require_torch(action: str) -> None:
    """Raise an error that names the missing extra if torch is not installed."""
    try:
        load_torch()
    except ImportError:
        raise MissingExtraError(action, "train") from None
