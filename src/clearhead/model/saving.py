"""Saves a model as a folder that `load`, transformers and sentence-transformers read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.checkpoint import folder as folders
from clearhead.checkpoint import sentence
from clearhead.checkpoint.mean_head import write_mean_head
from clearhead.checkpoint.passport import Passport, write_passport
from clearhead.errors import CheckpointError
from clearhead.families.family import HEAD_POOLING
from clearhead.files import write_json
from clearhead.shape import Pooling

if TYPE_CHECKING:
    from clearhead.model.model import Model

GENERATION = "generation_config.json"


def save(model: Model, folder: Path, shard_bytes: int) -> Path:
    """Write the folder and return it."""
    try:
        _write_folder(model, folder, shard_bytes)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be written: {error.strerror or error}.") from error
    return folder


def _write_folder(model: Model, folder: Path, shard_bytes: int) -> None:
    from clearhead import __version__

    arrays, pruned = model.runner.weights(), list_pruned_heads(model)
    folders.write_checkpoint(
        folder,
        config=model.config,
        family=model.family,
        head=model.head,
        shape=model.shape,
        labels=model.labels,
        arrays=arrays,
        shard_bytes=shard_bytes,
    )
    if model.generation is not None:
        write_json(folder / GENERATION, dict(model.generation))
    golden: dict[str, list[int]] = {}
    target_golden: dict[str, list[int]] = {}
    if model.source_tokenizer is not None:
        model.source_tokenizer.save(folder)
        golden = model.source_tokenizer.golden()
    if model.target_tokenizer is not None:
        target_golden = model.target_tokenizer.golden()
        if model.config.get("target_vocab_size"):  # separate vocabularies; Marian's files contain both
            model.target_tokenizer.save(folder / "target")
    keeps_pooling = model.shape.head is None or model.shape.head.kind in (
        "masked",
        "replaced",
    )  # continued pre-training
    if model.pooling.origin != Pooling().origin and keeps_pooling:
        sentence.write_modules(folder, model.pooling, model.dense, model.shape.stack.width)
    if model.head == "classify" and model.config.get(HEAD_POOLING) == "mean":
        longest = model.max_length(model.pooling) if model.trained is None else model.trained.max_length
        write_mean_head(folder, arrays, longest, model.trained, lowercase=model.pooling.lowercase)
    write_passport(
        folder,
        Passport(
            clearhead=__version__,
            family=model.family.model_type,
            head=model.head,
            labels=list(model.labels) if model.has_labels else [],
            golden=golden,
            target_golden=target_golden,
            pruned=pruned,
            trained=model.trained,
        ),
    )


def list_pruned_heads(model: Model) -> dict[str, dict[str, list[int]]]:
    """List the pruned heads: of the network if the core runs, else of the passport."""
    if not model.runner.capabilities.gradients:
        return {} if model.passport is None else model.passport.pruned
    from clearhead.core.build import find_pruned_heads

    return find_pruned_heads(model.core.network)
