"""A model as a folder that `load`, transformers and sentence-transformers read: what `Model.save` does."""

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
    """Write the folder, and return it."""
    try:
        _write_folder(model, folder, shard_bytes)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be written: {error.strerror or error}.") from error
    return folder


def _write_folder(model: Model, place: Path, shard_bytes: int) -> None:
    from clearhead import __version__

    arrays, pruned = model.runner.weights(), list_pruned_heads(model)
    folders.write_checkpoint(
        place,
        config=model.config,
        family=model.family,
        head=model.head,
        shape=model.shape,
        labels=model.labels,
        arrays=arrays,
        shard_bytes=shard_bytes,
    )
    if model.generation is not None:
        write_json(place / GENERATION, dict(model.generation))
    golden: dict[str, list[int]] = {}
    target_golden: dict[str, list[int]] = {}
    if model.source_tokenizer is not None:
        model.source_tokenizer.save(place)
        golden = model.source_tokenizer.golden()
    if model.target_tokenizer is not None:
        target_golden = model.target_tokenizer.golden()
        if model.config.get("target_vocab_size"):  # each language has a vocabulary; Marian's files hold both
            model.target_tokenizer.save(place / "target")
    plain = model.shape.head is None or model.shape.head.kind in ("masked", "replaced")  # taught further
    if model.pooling.origin != Pooling().origin and plain:
        sentence.write_modules(place, model.pooling, model.dense, model.shape.stack.width)
    if model.head == "classify" and model.config.get(HEAD_POOLING) == "mean":
        longest = model.max_length(model.pooling) if model.trained is None else model.trained.max_length
        write_mean_head(place, arrays, longest, model.trained, lowercase=model.pooling.lowercase)
    write_passport(
        place,
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
    """The attention heads that were removed: of the network where it is the core that runs, else of the passport."""
    if not model.runner.capabilities.gradients:
        return {} if model.passport is None else model.passport.pruned
    from clearhead.core.build import find_pruned_heads

    return find_pruned_heads(model.core.network)
