"""A classification head that reads the mean of all states, as modules of sentence-transformers.

transformers has no such head for BERT and its relatives: it would load the weights under its own and read the first
token. So the folder is a bare encoder with the modules Transformer, Pooling, Dense and Dense, which give the logits: as
a CrossEncoder where the model was trained on pairs, and otherwise, since that one takes no single texts, as a
SentenceTransformer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.activation import KEY, SETTINGS_FILE
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
ACTIVATIONS = ("tanh", "linear")  # of the two dense steps
CARD_TEMPLATE = """# A head on mean-pooled states

This model reads the mean of all token states: encoder, mean pooling, dense layer, tanh, dense layer.

- clearhead: `clearhead.predict(folder, {rows})` gives labels or numbers, calibrated, of long texts in windows.
- sentence-transformers{version}: `{call}` gives the logits{order}.{more} Texts are cut after {longest} tokens.
- transformers: `AutoModel` loads the encoder. There is no class with this head:
  `AutoModelForSequenceClassification` reports a newly initialized classifier, whose answers are random.
  `clearhead train --set head_pooling=first` makes a model that it can load.
"""
TEXT_CARD = {
    "rows": "texts",
    "version": "",
    "call": "SentenceTransformer(folder).encode(texts)",
    "more": " A pair of texts is a tuple.",
}
PAIR_CARD = {
    "rows": "pairs",
    "version": " 6 and later",
    "call": "CrossEncoder(folder).predict(pairs)",
    "more": " `SentenceTransformer` drops the head and gives the mean.",
}


def write_mean_head(
    folder: Path,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    longest: int | None,
    trained: TrainingRecord | None,
    *,
    lower: bool,
) -> None:
    """Pooling and Dense beside a saved encoder, and a card that says which library can load them."""
    pairs = trained is not None and "text_b" in trained.columns
    weights = tuple({leaf: arrays[f"head.{step}.{leaf}"] for leaf in ("weight", "bias")} for step in ("dense", "out"))
    outputs, width = weights[1]["weight"].shape
    steps = tuple(
        DenseShape(inputs=width, outputs=len(one["bias"]), activation=activation)
        for one, activation in zip(weights, ACTIVATIONS, strict=True)
    )
    write_modules(folder, Pooling(dense=steps, max_length=longest, lowercase=lower), weights, width)
    if pairs:
        _write_cross_encoder(folder)
    order = ", in the order of id2label in config.json" if outputs > 1 else ""
    with atomic_file(folder / CARD_FILE) as file:
        form = PAIR_CARD if pairs else TEXT_CARD
        file.write(CARD_TEMPLATE.format(order=order, longest=longest or "no number of", **form).encode())


def _write_cross_encoder(folder: Path) -> None:
    """Settings by which sentence-transformers takes the modules for a CrossEncoder, and the last one for its scores."""
    changes = {
        SETTINGS_FILE: {"model_type": "CrossEncoder", KEY: "torch.nn.modules.linear.Identity"},
        f"{MEAN_HEAD_MODULES[-1]}/config.json": {
            "module_input_name": "sentence_embedding",
            "module_output_name": "scores",
        },
    }
    for name, keys in changes.items():
        write_json(folder / name, read_json(folder / name) | keys)


def list_mean_head_tensors(folder: Path) -> dict[str, StoredTensor]:
    """The weights of the head, which lie in modules of their own."""
    found: dict[str, StoredTensor] = {}
    for name in MEAN_HEAD_MODULES:
        module = resolve_inside(folder, name)
        if not module.is_dir():
            raise CheckpointError(f"{folder} has a head that reads the mean, and its weights in {name}/ are gone.")
        found |= {f"{name}.{tensor}": stored for tensor, stored in list_tensors(module, folder).items()}
    return found


def drop_mean_head_tensors(
    written: list[tuple[str, np.ndarray[Any, Any]]], prefix: str
) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """The tensors of the bare encoder under its own names: `write_mean_head` writes the others."""
    return [(name.removeprefix(prefix), array) for name, array in written if not name.startswith(MEAN_HEAD_MODULES)]


def drop_mean_head_modules(sentences: SentenceModules | None) -> SentenceModules:
    """The modules without the head, for vectors of texts; modules that compute something else are refused."""
    pooling = None if sentences is None else sentences.pooling
    if (
        sentences is None
        or pooling is None
        or pooling.modes != ("mean",)
        or tuple(step.activation for step in pooling.dense) != ACTIVATIONS
        or pooling.normalize
    ):
        raise CheckpointError(
            f"config.json has {HEAD_POOLING} 'mean', so modules.json must list Transformer, Pooling (mean), Dense "
            "(Tanh) and Dense (Identity), and it does not. Restore it, or train again."
        )
    return SentenceModules(encoder=sentences.encoder, pooling=replace(pooling, dense=()))
