"""sentence-transformers folders: modules.json, pooling, dense, normalize, prompts, maximum length.

A module's type is a word to be recognised, never something to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.weights import (
    MappedTensors,
    check_values,
    has_entry,
    list_tensors,
    resolve_inside,
    write_tensors,
)
from clearhead.errors import CheckpointError, ConfigError, TensorError
from clearhead.files import MAX_JSON_BYTES, check_depth, read_bytes, read_json, to_printable, write_json
from clearhead.shape import POOLING_MODES, DenseShape, Pooling

if TYPE_CHECKING:
    import numpy as np

LEGACY_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
ACTIVATIONS = {
    "Tanh": "tanh",
    "Identity": "linear",
    "ReLU": "relu",
    "GELU": "gelu",
    "Sigmoid": "sigmoid",
    "SiLU": "silu",
    "Mish": "mish",
    "ELU": "elu",
    "LeakyReLU": "leaky_relu",
    "ReLU6": "relu6",
}
MAX_MODULES = 32
MODULES_FILE = "modules.json"


@dataclass(frozen=True, kw_only=True)
class SentenceModules:
    """What stands around the encoder: where it lies, how its words become one vector, and the dense weights."""

    encoder: Path
    pooling: Pooling
    dense: tuple[Mapping[str, np.ndarray[Any, Any]], ...] = ()


def read_modules(folder: Path) -> SentenceModules | None:
    """The modules of a sentence-transformers folder, or None when it is none."""
    if not has_entry(folder, "modules.json"):
        return None
    steps = _list_modules(folder)
    kinds = [kind for kind, _ in steps]
    if not kinds or kinds[0] != "Transformer" or kinds.count("Transformer") != 1:
        raise ConfigError("modules.json must begin with one Transformer module.")
    encoder = _module_folder(folder, steps[0][1])
    if len(steps) == 1:  # a cross-encoder says no more: its head gives the answer
        return SentenceModules(encoder=encoder, pooling=Pooling())
    modes: tuple[str, ...] = ("mean",)
    include = True
    shapes: list[DenseShape] = []
    weights: list[Mapping[str, np.ndarray[Any, Any]]] = []
    normalize, pooled = False, False
    for kind, path in steps[1:]:
        if kind == "Pooling" and not pooled:
            modes, include = _read_pooling(_module_folder(folder, path))
            pooled = True
        elif kind == "Dense" and pooled and not normalize:
            shape, arrays = _read_dense(_module_folder(folder, path), folder)
            shapes.append(shape)
            weights.append(arrays)
        elif kind == "Normalize" and pooled:
            normalize = True
        elif kind != "Dropout":
            raise ConfigError(f"modules.json has a {kind} module at a place where it is not supported.")
    if not pooled:
        raise ConfigError("modules.json has no Pooling module, so there is no one vector per text.")
    prompts, default = _read_prompts(folder)
    settings = read_json(resolve_inside(encoder, name)) if (name := _find_settings_file(encoder)) else {}
    longest = settings.get("max_seq_length")
    if longest is not None and (not isinstance(longest, int) or isinstance(longest, bool) or longest < 1):
        raise ConfigError(f"{name} has max_seq_length {str(longest)[:40]!r}, expected a positive number or null.")
    return SentenceModules(
        encoder=encoder,
        pooling=Pooling(
            modes=modes,
            include_prompt=include,
            dense=tuple(shapes),
            normalize=normalize,
            prompts=prompts,
            default_prompt=default,
            max_length=longest,
            lowercase=settings.get("do_lower_case") is True,
            origin=MODULES_FILE,
        ),
        dense=tuple(weights),
    )


def uses_mean_pooling(pooling: Pooling) -> bool:
    """Whether a folder says that the mean of all states is a text's vector."""
    return pooling.modes == ("mean",) and pooling.origin == MODULES_FILE


def _list_modules(folder: Path) -> list[tuple[str, str]]:
    import json

    try:
        listed = json.loads(read_bytes(resolve_inside(folder, "modules.json"), max_bytes=MAX_JSON_BYTES))
    except (ValueError, RecursionError):
        raise ConfigError("modules.json is not valid JSON.") from None
    if not isinstance(listed, list) or len(listed) > MAX_MODULES:
        raise ConfigError(f"modules.json is not a list of at most {MAX_MODULES} modules.")
    check_depth(listed, "modules.json")
    steps = []
    for module in listed:
        if not isinstance(module, dict) or not isinstance(module.get("type"), str):
            raise ConfigError("modules.json has a module without a type.")
        path = module.get("path", "")
        if not isinstance(path, str):
            raise ConfigError("modules.json has a module whose path is not a text.")
        steps.append((to_printable(module["type"].rpartition(".")[2], 60), path))
    return steps


def _module_folder(folder: Path, path: str) -> Path:
    if path in ("", "."):
        return folder
    return resolve_inside(folder, path)


def _find_settings_file(encoder: Path) -> str | None:
    others = ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
    names = ("sentence_bert_config.json", *(f"sentence_{name}_config.json" for name in others))
    return next((name for name in names if has_entry(encoder, name)), None)


def _read_pooling(folder: Path) -> tuple[tuple[str, ...], bool]:
    config = read_json(resolve_inside(folder, "config.json"))
    given = config.get("pooling_mode")
    if given is None:
        modes = tuple(mode for key, mode in LEGACY_MODES.items() if config.get(key) is True) or ("mean",)
    else:
        modes = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else ()
    if not modes or len(modes) > len(POOLING_MODES) or any(mode not in POOLING_MODES for mode in modes):
        known = ", ".join(POOLING_MODES)
        raise ConfigError(f"{folder.name}/config.json pools by {str(given)[:60]!r}, expected {known}.")
    return modes, config.get("include_prompt") is not False


def _read_dense(folder: Path, model: Path) -> tuple[DenseShape, Mapping[str, np.ndarray[Any, Any]]]:
    config = read_json(resolve_inside(folder, "config.json"))
    inputs, outputs = config.get("in_features"), config.get("out_features")
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 < n <= 1 << 20 for n in (inputs, outputs)):
        raise ConfigError(f"{folder.name}/config.json has impossible in_features or out_features.")
    if config.get("use_residual") is True:
        raise ConfigError(f"{folder.name}/config.json asks for a residual dense step, which is not supported.")
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ConfigError(f"{folder.name}/config.json has the activation {name[:60]!r}, expected {known}.")
    bias = config.get("bias") is not False
    stored = list_tensors(folder, model)
    needed = {"linear.weight": (outputs, inputs)} | ({"linear.bias": (outputs,)} if bias else {})
    if {key: tensor.size for key, tensor in stored.items()} != needed:
        raise TensorError(f"{folder.name} does not hold the weights that its config.json describes.")
    mapped = MappedTensors(stored)
    arrays = {key.removeprefix("linear."): mapped.array(key) for key in needed}
    for array in arrays.values():
        check_values(array, folder.name)
    shape = DenseShape(inputs=inputs, outputs=outputs, bias=bias, activation=ACTIVATIONS[name])  # type: ignore[arg-type]
    return shape, arrays


def check_dense_widths(pooling: Pooling, width: int) -> None:
    """Each dense step must take what the one before it gives."""
    width *= len(pooling.modes)
    for step in pooling.dense:
        if step.inputs != width:
            raise ConfigError(f"modules.json has a Dense module for vectors of {step.inputs}, and they have {width}.")
        width = step.outputs


def _read_prompts(folder: Path) -> tuple[tuple[tuple[str, str], ...], str | None]:
    path = folder / "config_sentence_transformers.json"
    config = read_json(resolve_inside(folder, path.name)) if has_entry(folder, path.name) else {}
    given = config.get("prompts") or {}
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise ConfigError(f"{path.name} has prompts that are not texts.")
    default = config.get("default_prompt_name")
    if default is not None and (not isinstance(default, str) or default not in given):
        raise ConfigError(f"{path.name} has the default prompt {str(default)[:60]!r}, which is not among its prompts.")
    return tuple(given.items()), default


def write_modules(
    folder: Path, pooling: Pooling, dense: tuple[Mapping[str, np.ndarray[Any, Any]], ...], width: int
) -> None:
    """The files that make a saved encoder a sentence-transformers folder."""
    if "pooler" in pooling.modes:
        raise CheckpointError("sentence-transformers cannot pool by the pooler's vector; choose another way first.")
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    modules += [(f"{2 + i}_Dense", "Dense") for i in range(len(dense))]
    if pooling.normalize:
        modules.append((f"{2 + len(dense)}_Normalize", "Normalize"))
    write_json(
        folder / "modules.json",
        [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(modules)
        ],
    )
    settings = {"max_seq_length": pooling.max_length, "do_lower_case": pooling.lowercase}
    write_json(folder / "sentence_bert_config.json", settings)
    config: dict[str, Any] = {"word_embedding_dimension": width, "include_prompt": pooling.include_prompt}
    config |= {key: mode in pooling.modes for key, mode in LEGACY_MODES.items()}
    if tuple(mode for mode in LEGACY_MODES.values() if mode in pooling.modes) != pooling.modes:
        config["pooling_mode"] = list(pooling.modes)
    write_json(folder / "1_Pooling" / "config.json", config)
    titles = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    for i, (shape, arrays) in enumerate(zip(pooling.dense, dense, strict=True)):
        module = "linear.Identity" if shape.activation == "linear" else f"activation.{titles[shape.activation]}"
        place = folder / f"{2 + i}_Dense"
        write_json(
            place / "config.json",
            {
                "in_features": shape.inputs,
                "out_features": shape.outputs,
                "bias": shape.bias,
                "activation_function": f"torch.nn.modules.{module}",
            },
        )
        write_tensors(place, [(f"linear.{key}", array) for key, array in arrays.items()], 1 << 40)
    prompts = {"prompts": dict(pooling.prompts), "default_prompt_name": pooling.default_prompt}
    write_json(folder / "config_sentence_transformers.json", prompts)
