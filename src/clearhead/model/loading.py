"""Loading a model: from a folder, the hub or an alias, with its tokenizer, labels and passport checked."""

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

    `head` is the one it was saved with; name another ("classify", "tag", "span", "choice", "masked", ...) to put it on
    the same encoder, or None for the encoder alone. A head that the checkpoint does not have is drawn from `seed`; a
    warning says so, unless it is going to be trained (`fresh`).
    `runtime` is the engine (ONNX Runtime on the CPU, on `threads` cores) or the core (torch); "auto" is the engine
    wherever it can be, with the core made beside it when a trace, a gradient or a pruned head asks for it.
    `precision` is "float" or "int8"; without it, int8 where `clearhead quantize` found it good enough, else float.
    `head_pooling` is what a classify head reads: "first", the first token's state, as transformers has it; "mean", the
    mean of all states; "auto", for a new head the mean where the folder pools so. None: as saved, or as "first".
    `weights` of these files that are in memory already are not read again: a model, whose tensors an engine shares, or
    tensors by name, which an engine shares and the core copies.
    `progress` receives (file, bytes done, bytes in all) while the hub is asked.
    """

    if runtime not in RUNTIMES:
        raise InputError(f"runtime must be one of {', '.join(RUNTIMES)}, and it is {runtime!r}.")
    if precision not in (None, *PRECISIONS):
        raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, and it is {precision!r}.")
    if precision == "int8" and runtime == "core":
        raise InputError("int8 runs in the engine: leave runtime out, or say runtime='engine'.")
    if head_pooling not in (None, *HEAD_POOLINGS):
        raise InputError(f"head_pooling must be one of auto, first, mean, got {to_printable(head_pooling, 40)!r}.")
    located = locate(reference, offline=offline, progress=progress)
    sentences = read_modules(located.folder)
    place = located.folder if sentences is None else sentences.encoder
    automatic = head_pooling == "auto"
    if automatic:
        head_pooling = "mean" if sentences is not None and uses_mean_pooling(sentences.pooling) else None
    read = read_checkpoint(place, head, _check_labels(labels), head_pooling, keep_head=automatic)
    if read.has_mean_head:
        sentences = drop_mean_head_modules(sentences)
    if sentences is not None:
        check_dense_widths(sentences.pooling, read.shape.stack.width)
    passport = read_passport(place)
    if passport is not None and head == AUTO and labels is None:
        check_labels(passport, read.labels)
    source, target = _load_tokenizers(place, read.family.model_type, read.config, passport)
    pruned = _read_pruned_heads(read.shape, passport)
    engine = runs_engine("engine" if precision == "int8" else runtime, device, read)
    for warning in read.warnings:
        log.warning("%s", warning)
    for note in read.notes:
        log.log(logging.WARNING if read.new_tensors and not fresh else logging.INFO, "%s", note)

    held = weights.runner.weights() if isinstance(weights, Model) else weights
    copied = None if isinstance(weights, Model) else weights

    def core() -> CoreRunner:
        return _core_runner(_build_network(read, pruned, seed, copied), device)

    return Model(
        runner=engine_runner(read, pruned, threads, passport, precision, source, held) if engine else core(),
        make_core=core if engine else None,
        config=read.config if read.head != "classify" else merge_cross_encoder_settings(read.config, located.folder),
        family=read.family,
        head=read.head,
        labels=read.labels,
        source_tokenizer=source,
        target_tokenizer=target,
        pooling=Pooling() if sentences is None else sentences.pooling,
        dense=() if sentences is None else sentences.dense,
        generation=read_json(resolve_inside(place, GENERATION)) if (place / GENERATION).exists() else None,
        notes=(*read.warnings, *read.notes),
        fresh=read.new_tensors,
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
    """A new model with fresh weights: a family, perhaps a preset size, and keys of its config.json."""
    require_torch("Making a model")
    from clearhead.core.build import build_network

    names = _check_labels(labels) or ()
    said = {} if tokenizer is None else {"vocab_size": tokenizer.vocab_size}
    given, shape = new_shape(family, preset, {**said, **(config or {})}, head, len(names))
    kind = FAMILIES[family]
    stack = shape.stack
    if tokenizer is not None:
        longest = stack.max_length if stack.positions == "learned" else None
        tokenizer = tokenizer.copy_for_model(longest, segments=stack.segments > 1)
    return Model(
        runner=_core_runner(build_network(shape, seed=seed), device),
        config=given,
        family=kind,
        head=head,
        labels=names,
        source_tokenizer=tokenizer,
        reference=f"new {kind.title}",
    )


def new_shape(
    family: str, preset: str | None, config: Mapping[str, Any], head: str | None, labels: int = 0
) -> tuple[dict[str, Any], ModelShape]:
    """The config and the architecture of a new model; one sentence for what cannot be."""
    if family not in FAMILIES:
        raise InputError(f"There is no family {family!r}; there are {', '.join(FAMILIES)}.")
    kind = FAMILIES[family]
    if preset is not None and preset not in kind.presets:
        raise InputError(f"{kind.title} has no preset {preset!r}; it has {', '.join(kind.presets)}.")
    given = {**({} if preset is None else kind.preset_config(preset, config)), **config}
    if unknown := sorted(given.keys() - kind.config_keys.keys()):
        raise InputError(f"{kind.title} has no key {unknown[0]!r} in its config; it has {', '.join(kind.config_keys)}.")
    shape = kind.model_shape(given, head, labels)
    if shape.head is not None and shape.head.tied and given.get("tie_word_embeddings") is False:
        shape = replace(shape, head=replace(shape.head, tied=False))  # of a file, its tensors tell it
    return given, shape


def _check_labels(labels: Sequence[str] | None) -> tuple[str, ...] | None:
    if labels is None:
        return None
    if isinstance(labels, str) or not all(isinstance(label, str) for label in labels) or not labels:
        raise InputError("labels must be a list of at least one name.")
    if len(set(labels)) != len(labels):
        raise InputError("labels names one label twice.")
    return tuple(labels)


def load_tokenizers(reference: str | os.PathLike[str] = "default") -> tuple[Tokenizer, Tokenizer | None]:
    """A model's tokenizers without its weights: of the input, and of the target where that is another one."""

    folder = locate(reference).folder
    sentences = read_modules(folder)
    place = folder if sentences is None else sentences.encoder
    if not (place / "config.json").exists() and (place / "tokenizer.json").is_file():  # as learn-tokenizer leaves it
        config, model_type = {}, None
    else:
        config = read_config(place)
        model_type = detect_model_type(config, () if "model_type" in config else list_tensors(place))
    source, target = _load_tokenizers(place, str(model_type), config, read_passport(place))
    if source is None:
        raise CheckpointError(f"{place} has no tokenizer files.")
    return source, target


def _load_tokenizers(
    place: Path, model_type: str, config: Mapping[str, Any], passport: Passport | None
) -> tuple[Tokenizer | None, Tokenizer | None]:
    for path in _list_entries(place):
        if path.suffix in TOKENIZER_FILES and not resolve_inside(place, path.name).is_file():
            raise UnsafeError(f"{to_printable(path.name)} is not a regular file, so it is not opened.")
    if not has_tokenizer(place):
        if passport is not None and passport.golden:
            raise CheckpointError(f"{place} was saved with a tokenizer, and its files are gone.")
        return None, None
    try:
        pair = load_tokenizer(place, model_type, dict(config))
    except TokenizerError as error:
        raise TokenizerError(to_printable(error, 480)) from error  # it may quote whatever a file holds
    if passport is not None:
        check_tokenization(passport.golden, pair.source.golden())
        if pair.target is not None:
            check_tokenization(passport.target_golden, pair.target.golden())
    return pair.source, pair.target


def _list_entries(place: Path) -> list[Path]:
    try:
        return sorted(place.iterdir())
    except OSError as error:
        raise CheckpointError(f"{place} cannot be read: {error.strerror or error}.") from error


def has_tokenizer(place: Path) -> bool:
    """Whether a folder has any tokenizer file at all."""
    names = ("tokenizer.json", "vocab.txt", "vocab.json", "encoder.json", "source.spm")
    return any((place / name).exists() for name in names) or any(place.glob("*.model"))


def _build_network(read: Checkpoint, pruned: PrunedHeads, seed: int, held: Mapping[str, Array] | None) -> Network:
    require_torch("Running a model")
    from clearhead.core.build import build_network, convert_to_float32

    arrays = shared_arrays(read, held, convert_to_float32, writable=True)
    shared = held or {}
    own = {name: copy_aligned(array) if array is shared.get(name) else array for name, array in arrays.items()}
    network = build_network(read.shape, own.items(), seed=seed)
    for part, blocks in pruned.items():
        network.prune({int(block): set(heads) for block, heads in blocks.items()}, part)
    return network


def _read_pruned_heads(shape: ModelShape, passport: Passport | None) -> PrunedHeads:
    """The heads that a passport says are gone, which the model must have had."""
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


def require_torch(what: str) -> None:
    """Say which extra is missing before anything is done in vain."""
    try:
        load_torch()
    except ImportError:
        raise MissingExtraError(what, "train") from None
