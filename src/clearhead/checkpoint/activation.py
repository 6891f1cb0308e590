"""What a cross-encoder of sentence-transformers does with its output: read from its folder, and written for it.

An activation's name is a word to be recognized, never something to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from clearhead.checkpoint.weights import has_entry, resolve_inside
from clearhead.errors import ConfigError
from clearhead.files import read_json, to_printable

Activation = Literal["identity", "sigmoid", "tanh", "relu", "softplus", "logsigmoid"]

SETTINGS_FILE = "config_sentence_transformers.json"
SECTION, KEY = "sentence_transformers", "activation_fn"  # of config.json, from version 4 on
OLD_KEY = "sbert_ce_default_activation_function"  # of config.json, before version 4
ACTIVATION_PATHS: dict[str, Activation] = {
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.Softplus": "softplus",
    "torch.nn.modules.activation.LogSigmoid": "logsigmoid",
}
SOFTMAX_PATHS = ("torch.nn.modules.activation.Softmax", "torch.nn.Softmax")
SHORT_ACTIVATION_PATHS = {f"torch.nn.{path.rpartition('.')[2]}": name for path, name in ACTIVATION_PATHS.items()}


def read_activation(config: Mapping[str, Any], outputs: int) -> tuple[Activation, str | None]:
    """What becomes of the outputs of a head by its config.json, and a warning where that is not followed.

    Without a word about it, a single output goes through a sigmoid, unless it was trained as a plain regression.
    """
    usual: Activation = "sigmoid" if outputs == 1 and config.get("problem_type") != "regression" else "identity"
    section = config.get(SECTION)
    path = section[KEY] if isinstance(section, dict) and KEY in section else config.get(OLD_KEY)
    if path is None:
        return usual, None
    if not isinstance(path, str):
        raise ConfigError(f"config.json has the activation {to_printable(path, 60)!r}, expected its name.")
    known = ACTIVATION_PATHS.get(path) or SHORT_ACTIVATION_PATHS.get(path)
    if outputs > 1 and (known is not None or path in SOFTMAX_PATHS):
        same = known == "identity" or path in SOFTMAX_PATHS
        note = f"config.json asks for {path.rpartition('.')[2]} on {outputs} outputs; probabilities here are a softmax."
        return "identity", None if same else note
    if known is not None:
        return known, None
    if outputs == 1 and path.startswith("torch."):
        names = ", ".join(found.rpartition(".")[2] for found in ACTIVATION_PATHS)
        raise ConfigError(f"config.json asks for the activation {to_printable(path, 80)}; these are known: {names}.")
    # sentence-transformers does not import it either, unless it is told to trust the folder's code
    return usual, f"config.json asks for the activation {to_printable(path, 80)}, which is not known: {usual} is used."


def set_activation(config: Mapping[str, Any], activation: Activation) -> dict[str, Any]:
    """A config.json that tells sentence-transformers what becomes of the outputs."""
    path = next(path for path, name in ACTIVATION_PATHS.items() if name == activation)
    section = config.get(SECTION)
    made = {key: value for key, value in config.items() if key != OLD_KEY}
    return made | {SECTION: {**(section if isinstance(section, dict) else {}), KEY: path}}


def merge_cross_encoder_settings(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """config.json with the activation that newer cross-encoders keep in a file beside it."""
    if not has_entry(folder, SETTINGS_FILE) or not has_entry(folder, "modules.json"):
        return dict(config)
    settings = read_json(resolve_inside(folder, SETTINGS_FILE))
    if settings.get("model_type") != "CrossEncoder" or settings.get(KEY) is None:
        return dict(config)
    section = config.get(SECTION)
    return {**config, SECTION: {**(section if isinstance(section, dict) else {}), KEY: settings[KEY]}}
