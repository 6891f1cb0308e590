"""Read and write the modules of sentence-transformers folders: pooling, dense layers, normalization, prompts.

Module types are matched by name; nothing is imported.
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

LEGACY_MODE_KEYS = {
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
    """The modules of a sentence encoder: the encoder's folder, the pooling, and the weights of the dense layers."""

    encoder: Path
    pooling: Pooling
    dense: tuple[Mapping[str, np.ndarray[Any, Any]], ...] = ()


def read_modules(folder: Path) -> SentenceModules | None:
    """Read the modules of a sentence-transformers folder, or return None if there is no modules.json."""
    if not has_entry(folder, "modules.json"):
        return None
    modules = _list_modules(folder)
    kinds = [kind for kind, _ in modules]
    if not kinds or kinds[0] != "Transformer" or kinds.count("Transformer") != 1:
        raise ConfigError("modules.json must start with its only Transformer module.")
    encoder = _resolve_module_folder(folder, modules[0][1])
    if len(modules) == 1:  # a cross-encoder: the head of the model computes the output
        return SentenceModules(encoder=encoder, pooling=Pooling())
    modes: tuple[str, ...] = ("mean",)
    include_prompt = True
    shapes: list[DenseShape] = []
    weights: list[Mapping[str, np.ndarray[Any, Any]]] = []
    normalize, has_pooling = False, False
    for kind, path in modules[1:]:
        if kind == "Pooling" and not has_pooling:
            modes, include_prompt = _read_pooling(_resolve_module_folder(folder, path))
            has_pooling = True
        elif kind == "Dense" and has_pooling and not normalize:
            shape, arrays = _read_dense(_resolve_module_folder(folder, path), folder)
            shapes.append(shape)
            weights.append(arrays)
        elif kind == "Normalize" and has_pooling:
            normalize = True
        elif kind != "Dropout":
            raise ConfigError(f"modules.json has a {kind} module at an unsupported position.")
    if not has_pooling:
        raise ConfigError("modules.json has no Pooling module, so it does not describe a sentence encoder.")
    prompts, default_prompt = _read_prompts(folder)
    settings_file = _find_settings_file(encoder)
    settings = {} if settings_file is None else read_json(resolve_inside(encoder, settings_file))
    max_length = settings.get("max_seq_length")
    if max_length is not None and (not isinstance(max_length, int) or isinstance(max_length, bool) or max_length < 1):
        raise ConfigError(
            f"{settings_file} has max_seq_length {str(max_length)[:40]!r}, expected a positive integer or null."
        )
    return SentenceModules(
        encoder=encoder,
        pooling=Pooling(
            modes=modes,
            include_prompt=include_prompt,
            dense=tuple(shapes),
            normalize=normalize,
            prompts=prompts,
            default_prompt=default_prompt,
            max_length=max_length,
            lowercase=settings.get("do_lower_case") is True,
            origin=MODULES_FILE,
        ),
        dense=tuple(weights),
    )


def uses_mean_pooling(pooling: Pooling) -> bool:
    """Whether the modules.json of a folder selects mean pooling."""
    return pooling.modes == ("mean",) and pooling.origin == MODULES_FILE


def _list_modules(folder: Path) -> list[tuple[str, str]]:
    import json

    try:
        entries = json.loads(read_bytes(resolve_inside(folder, "modules.json"), max_bytes=MAX_JSON_BYTES))
    except (ValueError, RecursionError):
        raise ConfigError("modules.json is not valid JSON.") from None
    if not isinstance(entries, list) or len(entries) > MAX_MODULES:
        raise ConfigError(f"modules.json is not a list of at most {MAX_MODULES} modules.")
    check_depth(entries, "modules.json")
    modules = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
            raise ConfigError("modules.json has a module without a type.")
        path = entry.get("path", "")
        if not isinstance(path, str):
            raise ConfigError("modules.json has a module whose path is not a string.")
        modules.append((to_printable(entry["type"].rpartition(".")[2], 60), path))
    return modules


def _resolve_module_folder(folder: Path, path: str) -> Path:
    if path in ("", "."):
        return folder
    return resolve_inside(folder, path)


def _find_settings_file(encoder: Path) -> str | None:
    model_names = ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
    names = ("sentence_bert_config.json", *(f"sentence_{name}_config.json" for name in model_names))
    return next((name for name in names if has_entry(encoder, name)), None)


def _read_pooling(folder: Path) -> tuple[tuple[str, ...], bool]:
    config = read_json(resolve_inside(folder, "config.json"))
    pooling_mode = config.get("pooling_mode")
    if pooling_mode is None:
        modes = tuple(mode for key, mode in LEGACY_MODE_KEYS.items() if config.get(key) is True) or ("mean",)
    elif isinstance(pooling_mode, list):
        modes = tuple(pooling_mode)
    else:
        modes = (pooling_mode,) if isinstance(pooling_mode, str) else ()
    if not modes or len(modes) > len(POOLING_MODES) or any(mode not in POOLING_MODES for mode in modes):
        supported = ", ".join(POOLING_MODES)
        raise ConfigError(
            f"{folder.name}/config.json has the pooling mode {str(pooling_mode)[:60]!r}. Supported: {supported}."
        )
    return modes, config.get("include_prompt") is not False


def _read_dense(folder: Path, model: Path) -> tuple[DenseShape, Mapping[str, np.ndarray[Any, Any]]]:
    config = read_json(resolve_inside(folder, "config.json"))
    inputs, outputs = config.get("in_features"), config.get("out_features")
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 < n <= 1 << 20 for n in (inputs, outputs)):
        raise ConfigError(f"{folder.name}/config.json has an invalid in_features or out_features.")
    if config.get("use_residual") is True:
        raise ConfigError(f"{folder.name}/config.json has use_residual, which is not supported.")
    activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
    if activation not in ACTIVATIONS:
        supported = ", ".join(ACTIVATIONS)
        raise ConfigError(f"{folder.name}/config.json has the activation {activation[:60]!r}. Supported: {supported}.")
    bias = config.get("bias") is not False
    stored = list_tensors(folder, model)
    expected = {"linear.weight": (outputs, inputs)} | ({"linear.bias": (outputs,)} if bias else {})
    if {key: tensor.size for key, tensor in stored.items()} != expected:
        raise TensorError(f"The weights in {folder.name} do not match its config.json.")
    mapped = MappedTensors(stored)
    arrays = {key.removeprefix("linear."): mapped.array(key) for key in expected}
    for array in arrays.values():
        check_values(array, folder.name)
    shape = DenseShape(inputs=inputs, outputs=outputs, bias=bias, activation=ACTIVATIONS[activation])  # type: ignore[arg-type]
    return shape, arrays


def check_dense_widths(pooling: Pooling, width: int) -> None:
    """Check that the input width of each dense layer is the output width of the layer before it."""
    width *= len(pooling.modes)
    for layer in pooling.dense:
        if layer.inputs != width:
            raise ConfigError(f"modules.json has a Dense module with {layer.inputs} inputs, expected {width}.")
        width = layer.outputs


def _read_prompts(folder: Path) -> tuple[tuple[tuple[str, str], ...], str | None]:
    path = folder / "config_sentence_transformers.json"
    config = read_json(resolve_inside(folder, path.name)) if has_entry(folder, path.name) else {}
    prompts = config.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise ConfigError(f"{path.name} has prompts that are not strings.")
    default = config.get("default_prompt_name")
    if default is not None and (not isinstance(default, str) or default not in prompts):
        raise ConfigError(f"{path.name} has the default prompt {str(default)[:60]!r}, which is not one of its prompts.")
    return tuple(prompts.items()), default


def write_modules(
    folder: Path, pooling: Pooling, dense: tuple[Mapping[str, np.ndarray[Any, Any]], ...], width: int
) -> None:
    """Write the files that turn a saved encoder into a sentence-transformers folder."""
    if "pooler" in pooling.modes:
        raise CheckpointError("sentence-transformers has no pooling mode for the pooler's output; select another mode.")
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
    config |= {key: mode in pooling.modes for key, mode in LEGACY_MODE_KEYS.items()}
    if tuple(mode for mode in LEGACY_MODE_KEYS.values() if mode in pooling.modes) != pooling.modes:
        config["pooling_mode"] = list(pooling.modes)
    write_json(folder / "1_Pooling" / "config.json", config)
    class_names = {activation: class_name for class_name, activation in ACTIVATIONS.items()}
    for i, (shape, arrays) in enumerate(zip(pooling.dense, dense, strict=True)):
        class_path = (
            "linear.Identity" if shape.activation == "linear" else f"activation.{class_names[shape.activation]}"
        )
        module_folder = folder / f"{2 + i}_Dense"
        write_json(
            module_folder / "config.json",
            {
                "in_features": shape.inputs,
                "out_features": shape.outputs,
                "bias": shape.bias,
                "activation_function": f"torch.nn.modules.{class_path}",
            },
        )
        write_tensors(module_folder, [(f"linear.{key}", array) for key, array in arrays.items()], 1 << 40)
    prompts = {"prompts": dict(pooling.prompts), "default_prompt_name": pooling.default_prompt}
    write_json(folder / "config_sentence_transformers.json", prompts)
