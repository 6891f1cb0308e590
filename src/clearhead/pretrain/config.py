"""The config of a new model: keys as JSON or as a dict, or the path of a config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clearhead.checkpoint.config import detect_model_type
from clearhead.errors import ConfigError, InputError
from clearhead.families import FAMILIES
from clearhead.families.family import Family
from clearhead.files import read_json, to_printable

VOCAB_SIZE = "vocab_size"
DECODER_SIZES = (
    "decoder_vocab_size",
    "target_vocab_size",
)  # of translation models; a pre-trained model has a single vocabulary
ID_SUFFIX = "_token_id"  # keys that the tokenizer determines


def resolve_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the config as JSON; a config.json also sets the family and the vocabulary size."""
    resolved, config = dict(settings), settings.get("config")
    if isinstance(config, Mapping):
        try:
            resolved["config"] = json.dumps(dict(config))
        except TypeError as error:
            raise InputError(f"config must contain JSON keys and values: {error}.") from None
    elif isinstance(config, str | Path) and not str(config).lstrip().startswith("{"):
        family, values = _read_config_file(Path(config), resolved.get("family"))
        resolved["family"] = family.model_type
        vocab_size = values.pop(VOCAB_SIZE)
        if resolved.get("tokenizer") is None and resolved.get("vocab_size") is None:
            resolved["vocab_size"] = vocab_size
        if resolved.get("preset") is not None:
            raise InputError("preset and a config.json both define the size of a model; use only one of them.")
        resolved["config"] = json.dumps(values)
    return resolved


def _read_config_file(location: Path, family_name: str | None) -> tuple[Family, dict[str, Any]]:
    """Return the family of a config.json and the value of every key; missing keys get their defaults."""
    path = location / "config.json" if location.is_dir() else location
    if not path.is_file():
        raise InputError(f"config {to_printable(location)} is neither an existing config.json nor a JSON object.")
    config = read_json(path)
    model_type = detect_model_type(config, ()) or family_name
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        found_type = "no model_type" if model_type is None else f"model_type {to_printable(model_type, 40)}"
        raise ConfigError(f"{path} has {found_type}; supported families: {', '.join(FAMILIES)}.")
    if family_name is not None and family_name != model_type:
        raise InputError(
            f"{path} describes {FAMILIES[model_type].title}, but family is {family_name}; use only one of them."
        )
    values = FAMILIES[model_type].read_config(config)
    architecture = {
        key: value for key, value in values.items() if not key.endswith(ID_SUFFIX) and key not in DECODER_SIZES
    }
    return FAMILIES[model_type], architecture


def config_width(family: Family, preset: str, overrides: Mapping[str, Any]) -> int | None:
    """Return the width of a model with this config, or None for an invalid one, which is reported when it is built."""
    try:
        return family.build_stack(family.read_config({**family.preset_config(preset, overrides), **overrides})).width
    except (ConfigError, KeyError, TypeError, ValueError):
        return None
