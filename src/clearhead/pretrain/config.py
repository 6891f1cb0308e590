"""The config of a new model as people give it: keys as JSON or as a dict, or a config.json that lies somewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clearhead.checkpoint.folder import detect_model_type
from clearhead.errors import ConfigError, InputError
from clearhead.families import FAMILIES
from clearhead.families.family import Family
from clearhead.files import read_json, to_printable

VOCAB_SIZE = "vocab_size"
DECODER_SIZES = ("decoder_vocab_size", "target_vocab_size")  # of translators; what is learned here has one vocabulary
ID_SUFFIX = "_token_id"  # keys that the tokenizer says


def resolve_config(choices: Mapping[str, Any]) -> dict[str, Any]:
    """The same choices with the config as JSON; of a file, also its family and how many words it has."""
    made, said = dict(choices), choices.get("config")
    if isinstance(said, Mapping):
        try:
            made["config"] = json.dumps(dict(said))
        except TypeError as error:
            raise InputError(f"config must be names and values of JSON: {error}.") from None
    elif isinstance(said, str | Path) and not str(said).lstrip().startswith("{"):
        family, values = _read_config_file(Path(said), made.get("family"))
        made["family"] = family.model_type
        words = values.pop(VOCAB_SIZE)
        if made.get("tokenizer") is None and made.get("vocab_size") is None:
            made["vocab_size"] = words
        if made.get("preset") is not None:
            raise InputError("preset and a config.json each say how large a model is; give one of them.")
        made["config"] = json.dumps(values)
    return made


def _read_config_file(place: Path, asked: str | None) -> tuple[Family, dict[str, Any]]:
    """The family of a config.json, and every key of it, those that are left out with their defaults."""
    path = place / "config.json" if place.is_dir() else place
    if not path.is_file():
        raise InputError(f"config is {to_printable(place)}: neither a config.json that is there, nor JSON in braces.")
    config = read_json(path)
    kind = detect_model_type(config, ()) or asked
    if not isinstance(kind, str) or kind not in FAMILIES:
        what = "no model_type" if kind is None else f"model_type {to_printable(kind, 40)}"
        raise ConfigError(f"{path} says {what}; there are {', '.join(FAMILIES)}.")
    if asked is not None and asked != kind:
        raise InputError(f"{path} describes {FAMILIES[kind].title}, and family says {asked}; leave one of them out.")
    values = FAMILIES[kind].read_config(config)
    kept = {key: value for key, value in values.items() if not key.endswith(ID_SUFFIX) and key not in DECODER_SIZES}
    return FAMILIES[kind], kept


def config_width(family: Family, preset: str, said: Mapping[str, Any]) -> int | None:
    """How wide a model of these choices is; None where they cannot be, which is said when it is made."""
    try:
        return family.build_stack(family.read_config({**family.preset_config(preset, said), **said})).width
    except (ConfigError, KeyError, TypeError, ValueError):
        return None
