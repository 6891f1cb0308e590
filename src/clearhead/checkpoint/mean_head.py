"""A classification head on mean-pooled states, stored as sentence-transformers modules.

transformers has no such head for BERT and its relatives: it would load the weights into its own head, which reads the
first token. The folder is therefore a base encoder with the modules Transformer, Pooling, Dense and Dense, whose output
are the logits. A model for text pairs is a CrossEncoder; other models are a SentenceTransformer, because a CrossEncoder
does not accept single texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.activation import ACTIVATION_KEY, SETTINGS_FILE
from clearhead.checkpoint.sentence import SentenceModules, write_modules
from clearhead.checkpoint.weights import StoredTensor, list_tensors, resolve_inside
from clearhead.errors import CheckpointError
from clearhead.families.family import HEAD_POOLING, MEAN_HEAD_MODULES
from clearhead.files import atomic_file, read_json, write_json
from clearhead.shape import DenseShape, Pooling

if TYPE_CHECKING:
    import numpy as np

    from clearhead.checkpoint.passport import TrainingRecord

CARD_FILE = "README.md"
ACTIVATIONS = ("tanh", "linear")  # of the two dense layers
CARD_TEMPLATE = """# Head on mean-pooled states

The head of this model reads the mean of all token states: encoder, mean pooling, dense layer, tanh, dense layer.

- clearhead: `clearhead.predict(folder, {rows})` returns calibrated labels or numbers; long texts are split.
- sentence-transformers{version}: `{call}` returns the logits{order}.{more} {truncation}
- transformers: `AutoModel` loads the encoder. No class has this head:
  `AutoModelForSequenceClassification` reports a newly initialized classifier, whose predictions are random.
  `clearhead train --set head_pooling=first` trains a model that it can load.
"""
TEXT_CARD = {
    "rows": "texts",
    "version": "",
    "call": "SentenceTransformer(folder).encode(texts)",
    "more": " A text pair is a tuple.",
}
PAIR_CARD = {
    "rows": "pairs",
    "version": " 6 and later",
    "call": "CrossEncoder(folder).predict(pairs)",
    "more": " `SentenceTransformer` drops the head and returns the mean.",
}


def write_mean_head(
    folder: Path,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    max_length: int | None,
    training: TrainingRecord | None,
    *,
    lowercase: bool,
) -> None:
    """Write the pooling and dense modules of a saved encoder, and a model card that lists how to load them."""
    has_pairs = training is not None and "text_b" in training.columns
    weights = tuple({leaf: arrays[f"head.{layer}.{leaf}"] for leaf in ("weight", "bias")} for layer in ("dense", "out"))
    outputs, width = weights[1]["weight"].shape
    layers = tuple(
        DenseShape(inputs=width, outputs=len(layer_weights["bias"]), activation=activation)
        for layer_weights, activation in zip(weights, ACTIVATIONS, strict=True)
    )
    write_modules(folder, Pooling(dense=layers, max_length=max_length, lowercase=lowercase), weights, width)
    if has_pairs:
        _write_cross_encoder(folder)
    label_order = ", in the order of id2label in config.json" if outputs > 1 else ""
    truncation = f"Texts are truncated after {max_length} tokens." if max_length else "Texts are not truncated."
    card = PAIR_CARD if has_pairs else TEXT_CARD
    with atomic_file(folder / CARD_FILE) as file:
        file.write(CARD_TEMPLATE.format(order=label_order, truncation=truncation, **card).encode())


def _write_cross_encoder(folder: Path) -> None:
    """Write the settings with which sentence-transformers loads the modules as a CrossEncoder."""
    changes = {
        SETTINGS_FILE: {"model_type": "CrossEncoder", ACTIVATION_KEY: "torch.nn.modules.linear.Identity"},
        f"{MEAN_HEAD_MODULES[-1]}/config.json": {
            "module_input_name": "sentence_embedding",
            "module_output_name": "scores",
        },
    }
    for name, settings in changes.items():
        write_json(folder / name, read_json(folder / name) | settings)


def list_mean_head_tensors(folder: Path) -> dict[str, StoredTensor]:
    """List the tensors of the head, which are in module folders."""
    head_tensors: dict[str, StoredTensor] = {}
    for name in MEAN_HEAD_MODULES:
        module = resolve_inside(folder, name)
        if not module.is_dir():
            raise CheckpointError(f"{folder} has a mean-pooling head, but {name}/ with its weights is missing.")
        head_tensors |= {f"{name}.{tensor}": stored for tensor, stored in list_tensors(module, folder).items()}
    return head_tensors


def drop_mean_head_tensors(
    tensors: list[tuple[str, np.ndarray[Any, Any]]], prefix: str
) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Return the tensors of the encoder without their prefix; `write_mean_head` writes those of the head."""
    return [(name.removeprefix(prefix), array) for name, array in tensors if not name.startswith(MEAN_HEAD_MODULES)]


def drop_mean_head_modules(modules: SentenceModules | None) -> SentenceModules:
    """Return the modules without the head, for text embeddings; refuse modules that compute something else."""
    pooling = None if modules is None else modules.pooling
    if (
        modules is None
        or pooling is None
        or pooling.modes != ("mean",)
        or tuple(layer.activation for layer in pooling.dense) != ACTIVATIONS
        or pooling.normalize
    ):
        raise CheckpointError(
            f"config.json has {HEAD_POOLING} 'mean', but modules.json does not list Transformer, Pooling (mean), Dense "
            "(Tanh), Dense (Identity). Restore the file, or train again."
        )
    return SentenceModules(encoder=modules.encoder, pooling=replace(pooling, dense=()))
