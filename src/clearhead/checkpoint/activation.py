"""The output activation of a cross-encoder in the format of sentence-transformers.

Activations are matched by name; nothing is imported.
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
CONFIG_SECTION, ACTIVATION_KEY = "sentence_transformers", "activation_fn"  # of config.json, from version 4 on
LEGACY_KEY = "sbert_ce_default_activation_function"  # of config.json, before version 4
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
    """Return the activation of a head from its config.json, and a warning if another one is used instead.

    By default, a single output gets a sigmoid, unless the model is a regression model.
    """
    default: Activation = "sigmoid" if outputs == 1 and config.get("problem_type") != "regression" else "identity"
    section = config.get(CONFIG_SECTION)
    path = (
        section[ACTIVATION_KEY] if isinstance(section, dict) and ACTIVATION_KEY in section else config.get(LEGACY_KEY)
    )
    if path is None:
        return default, None
    if not isinstance(path, str):
        raise ConfigError(f"config.json has the activation {to_printable(path, 60)!r}, expected a string.")
    activation = ACTIVATION_PATHS.get(path) or SHORT_ACTIVATION_PATHS.get(path)
    if outputs > 1 and (activation is not None or path in SOFTMAX_PATHS):
        is_equivalent = activation == "identity" or path in SOFTMAX_PATHS
        warning = (
            f"config.json has the activation {path.rpartition('.')[2]} for {outputs} outputs; softmax is used instead."
        )
        return "identity", None if is_equivalent else warning
    if activation is not None:
        return activation, None
    if outputs == 1 and path.startswith("torch."):
        names = ", ".join(supported_path.rpartition(".")[2] for supported_path in ACTIVATION_PATHS)
        raise ConfigError(f"config.json has the unsupported activation {to_printable(path, 80)}. Supported: {names}.")
    # sentence-transformers does not import it either without trust_remote_code
    return (
        default,
        f"config.json has the unknown activation {to_printable(path, 80)}; {default} is used instead.",
    )


def set_activation(config: Mapping[str, Any], activation: Activation) -> dict[str, Any]:
    """Return a config.json with the output activation in the format of sentence-transformers."""
    path = next(path for path, name in ACTIVATION_PATHS.items() if name == activation)
    section = config.get(CONFIG_SECTION)
    updated = {key: value for key, value in config.items() if key != LEGACY_KEY}
    return updated | {CONFIG_SECTION: {**(section if isinstance(section, dict) else {}), ACTIVATION_KEY: path}}


def merge_cross_encoder_settings(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return config.json with the activation that newer cross-encoders store in a separate file."""
    if not has_entry(folder, SETTINGS_FILE) or not has_entry(folder, "modules.json"):
        return dict(config)
    settings = read_json(resolve_inside(folder, SETTINGS_FILE))
    if settings.get("model_type") != "CrossEncoder" or settings.get(ACTIVATION_KEY) is None:
        return dict(config)
    section = config.get(CONFIG_SECTION)
    return {
        **config,
        CONFIG_SECTION: {**(section if isinstance(section, dict) else {}), ACTIVATION_KEY: settings[ACTIVATION_KEY]},
    }
