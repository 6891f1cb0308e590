"""Selects the runtime of a model: the engine, in float or int8, or the core."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.engine.calibration_sentences import SENTENCES
from clearhead.errors import InputError
from clearhead.shape import ModelShape
from clearhead.tensors import PrunedHeads, expected_sizes

if TYPE_CHECKING:
    from clearhead.checkpoint.folder import Checkpoint
    from clearhead.checkpoint.passport import Passport
    from clearhead.checkpoint.weights import FloatConverter
    from clearhead.engine.int8 import Int8Plan
    from clearhead.engine.runner import EngineRunner
    from clearhead.text import Tokenizer

RUNTIMES = ("auto", "engine", "core")
PRECISIONS = ("float", "int8")
ALIGNMENT = 64  # bytes of a cache line and of the widest vector registers
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")  # exists if there may be a GPU that torch can use


class UncheckedInt8Warning(UserWarning):
    """A model runs in int8 although its int8 quality has not been measured."""


def runs_engine(runtime: str, device: str, checkpoint: Checkpoint) -> bool:
    """Whether the engine runs the model; "auto" uses torch if it has a GPU or must initialize a new head."""
    recurrent = checkpoint.shape.stack.recurrent is not None
    if runtime == "core" or (recurrent and runtime == "auto"):
        return False
    if recurrent:
        raise InputError(
            f"{checkpoint.family.title} runs only in the core; the engine, int8 and ONNX do not support it."
        )
    if runtime == "engine":
        if device not in ("auto", "cpu"):
            raise InputError(f"The engine runs only on the CPU, got device {device!r}; use runtime='core'.")
        if checkpoint.new_tensors:
            raise InputError(
                f"The checkpoint has no {checkpoint.head} head to run; use runtime='core' to initialize a new one."
            )
        return True
    if checkpoint.new_tensors or device not in ("auto", "cpu"):
        return False
    if device == "auto" and NVIDIA_DRIVER.exists():
        from importlib.util import find_spec

        if find_spec("torch") is not None:
            from clearhead.core.runner import has_cuda

            return not has_cuda()
    return True


def engine_runner(
    checkpoint: Checkpoint,
    pruned: PrunedHeads,
    threads: int | None,
    passport: Passport | None,
    precision: str | None,
    tokenizer: Tokenizer | None,
    weights: Mapping[str, Any] | None = None,
) -> EngineRunner:
    """Create an engine with the weights of a folder, in int8 if requested or measured as good enough.

    `weights` are tensors of the folder that are already in memory.
    """
    from clearhead.engine.int8_file import read_plan
    from clearhead.engine.runner import EngineRunner, silence_pruned_heads

    tensors = silence_pruned_heads(shared_arrays(checkpoint, None if pruned else weights), checkpoint.shape, pruned)
    has_passed = passport is not None and passport.int8 is not None and passport.int8.passed
    if precision == "float" or (precision is None and not has_passed):
        return EngineRunner(checkpoint.shape, tensors, threads)
    plan = read_plan(checkpoint.folder, tensors)
    if not has_passed or plan is None:
        warnings.warn(
            f"The int8 quality of {checkpoint.folder.name} has not been measured; it is quantized now. "
            "clearhead quantize measures it on your data and stores the verdict.",
            UncheckedInt8Warning,
            stacklevel=3,
        )
    if plan is None:
        plan = _quantize_now(checkpoint.shape, tensors, tokenizer)
    return EngineRunner(checkpoint.shape, tensors, threads, plan)


def shared_arrays(
    checkpoint: Checkpoint,
    weights: Mapping[str, Any] | None,
    to_float: FloatConverter | None = None,
    *,
    writable: bool = False,
) -> dict[str, Any]:
    """Return the tensors of a folder; `weights` in memory are not read again, unless the size of one differs."""
    loaded_weights, sizes = weights or {}, expected_sizes(checkpoint.shape)
    shared = {name: loaded_weights[name] for name in checkpoint.match.slices if name in loaded_weights}
    if any(tuple(array.shape) != tuple(sizes[name]) for name, array in shared.items() if name in sizes):
        shared = {}
    missing = checkpoint.match.slices.keys() - shared.keys()
    loaded = dict(checkpoint.iter_arrays(to_float, writable=writable, names=missing)) if missing else {}
    return {name: shared[name] if name in shared else loaded[name] for name in checkpoint.match.slices}


def copy_aligned(array: Any) -> Any:
    """Copy an array with the same strides and the same address modulo 64, because BLAS results depend on alignment."""
    import numpy as np

    if not array.size:
        return array.copy()
    steps = zip(array.shape, array.strides, strict=True)
    extent = sum((side - 1) * stride for side, stride in steps) + array.itemsize
    buffer = np.empty(extent + ALIGNMENT, np.uint8)
    offset = (array.ctypes.data - buffer.ctypes.data) % ALIGNMENT
    copied = np.ndarray(array.shape, array.dtype, buffer.data, offset, array.strides)
    copied[...] = array
    return copied


def _quantize_now(shape: ModelShape, tensors: Mapping[str, Any], tokenizer: Tokenizer | None) -> Int8Plan:
    """Calibrate on everyday sentences, or use the default plan if the model has no tokenizer."""
    from clearhead.engine.calibrate import calibrate_int8
    from clearhead.engine.int8 import Int8Plan

    if tokenizer is None or shape.decoder is not None:  # decoders scale each token and need no plan
        return Int8Plan()
    return calibrate_int8(shape, tensors, [tokens.ids for tokens in tokenizer.encode_ids(SENTENCES)])
