"""Read and write the config.json of a model folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from clearhead.checkpoint.weights import resolve_inside
from clearhead.errors import CheckpointError
from clearhead.families import FAMILIES, Family
from clearhead.families.family import HEAD_POOLING
from clearhead.files import read_json
from clearhead.shape import ModelShape

LM_HEADS = ("masked", "causal", "seq2seq", "bilm")


def read_config(folder: Path) -> dict[str, Any]:
    """Read the config.json of a model folder."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder.")
    path = resolve_inside(folder, "config.json")
    if not path.exists():
        raise CheckpointError(f"{folder} is not a model folder (config.json not found).")
    return read_json(path)


def detect_model_type(config: Mapping[str, Any], stored_names: Iterable[str]) -> object:
    """Return the model_type of config.json; if it is absent, infer it from `architectures` or the tensor names."""
    if "model_type" in config:
        return config["model_type"]
    architectures = config.get("architectures")
    class_names = architectures if isinstance(architectures, list) else []
    for family in FAMILIES.values():
        if any(name in family.architectures for name in class_names if isinstance(name, str)):
            return family.model_type
    prefixed_families = [family for family in FAMILIES.values() if family.prefix not in ("", "model.", "transformer.")]
    prefixes = {name.partition(".")[0] + "." for name in stored_names}
    return next((family.model_type for family in prefixed_families if family.prefix in prefixes), None)


def build_config(
    config: Mapping[str, Any], family: Family, head: str | None, shape: ModelShape, labels: tuple[str, ...]
) -> dict[str, Any]:
    """Return the config.json of a model: all keys are written, so later changes of defaults have no effect."""
    saved = {**family.read_config(config), **config, "model_type": family.model_type}
    optional = {key for key, spec in family.config_keys.items() if key not in config and spec.default is None}
    saved = {key: value for key, value in saved.items() if key not in optional}
    for stale_key in ("num_labels", "_num_labels", "torch_dtype", "auto_map", "_name_or_path", "_commit_hash"):
        saved.pop(stale_key, None)
    class_names = {head_name: class_name for class_name, head_name in reversed(list(family.architectures.items()))}
    uses_base_class = head is None or (head == "classify" and saved.get(HEAD_POOLING) is not None)
    saved["architectures"] = [base_class_name(family) if uses_base_class else class_names[str(head)]]
    if not uses_base_class or head is None:
        saved.pop(HEAD_POOLING, None)
    saved["dtype"] = "float32"
    if shape.head is not None and "tie_word_embeddings" in family.config_keys and shape.head.kind in LM_HEADS:
        if family.model_type == "t5":
            saved["scale_decoder_outputs"] = shape.head.scale != 1.0
        saved["tie_word_embeddings"] = shape.head.tied
    if shape.head is not None and shape.head.kind in ("classify", "tag", "span"):
        saved["id2label"] = {str(i): label for i, label in enumerate(labels)}
        saved["label2id"] = {label: i for i, label in enumerate(labels)}
    return saved


def base_class_name(family: Family) -> str:
    """Return the name of a family's base class, the one without a head."""
    class_name = next(iter(family.architectures))
    return class_name.split("For")[0].removesuffix("LMHeadModel").removesuffix("MTModel") + "Model"
