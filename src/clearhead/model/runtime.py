"""Which runtime runs a model: the engine, in float or int8, or the core."""

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
ALIGNMENT = 64  # bytes of a cache line, and of the widest vectors
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")  # there may be a GPU that torch can use


class UncheckedInt8Warning(UserWarning):
    """A model runs in eight bits, and nobody has measured what that costs."""


def runs_engine(runtime: str, device: str, read: Checkpoint) -> bool:
    """Whether the engine runs this; "auto" leaves it to torch where that has a GPU, or must draw a new head."""
    recurrent = read.shape.stack.recurrent is not None
    if runtime == "core" or (recurrent and runtime == "auto"):
        return False
    if recurrent:
        raise InputError(f"A {read.family.title} runs in the core alone: there is no engine, int8 or ONNX for it.")
    if runtime == "engine":
        if device not in ("auto", "cpu"):
            raise InputError(f"The engine runs on the CPU, and device is {device!r}; use runtime='core' for it.")
        if read.new_tensors:
            raise InputError(f"The checkpoint has no {read.head} head to run; a new one is drawn with runtime='core'.")
        return True
    if read.new_tensors or device not in ("auto", "cpu"):
        return False
    if device == "auto" and NVIDIA_DRIVER.exists():
        from importlib.util import find_spec

        if find_spec("torch") is not None:
            from clearhead.core.runner import has_cuda

            return not has_cuda()
    return True


def engine_runner(
    read: Checkpoint,
    pruned: PrunedHeads,
    threads: int | None,
    passport: Passport | None,
    precision: str | None,
    tokenizer: Tokenizer | None,
    weights: Mapping[str, Any] | None = None,
) -> EngineRunner:
    """The engine with a folder's weights, in int8 where that is asked for or was measured to be good enough.

    `weights` are tensors of the folder that are in memory already.
    """
    from clearhead.engine.int8_file import read_plan
    from clearhead.engine.runner import EngineRunner, silence_pruned_heads

    tensors = silence_pruned_heads(shared_arrays(read, None if pruned else weights), read.shape, pruned)
    good = passport is not None and passport.int8 is not None and passport.int8.passed
    if precision == "float" or (precision is None and not good):
        return EngineRunner(read.shape, tensors, threads)
    plan = read_plan(read.folder, tensors)
    if not good or plan is None:
        warnings.warn(
            f"Nobody has measured what int8 costs {read.folder.name}: it is quantised now. clearhead quantize measures "
            "it on your rows, and keeps the verdict.",
            UncheckedInt8Warning,
            stacklevel=3,
        )
    if plan is None:
        plan = _quantize_now(read.shape, tensors, tokenizer)
    return EngineRunner(read.shape, tensors, threads, plan)


def shared_arrays(
    read: Checkpoint,
    weights: Mapping[str, Any] | None,
    to_float: FloatConverter | None = None,
    *,
    writable: bool = False,
) -> dict[str, Any]:
    """The tensors of a folder: `weights` that are in memory are not read again, unless one has another size."""
    held, sizes = weights or {}, expected_sizes(read.shape)
    shared = {ours: held[ours] for ours in read.match.slices if ours in held}
    if any(tuple(array.shape) != tuple(sizes[ours]) for ours, array in shared.items() if ours in sizes):
        shared = {}
    missing = read.match.slices.keys() - shared.keys()
    loaded = dict(read.iter_arrays(to_float, writable=writable, names=missing)) if missing else {}
    return {ours: shared[ours] if ours in shared else loaded[ours] for ours in read.match.slices}


def copy_aligned(array: Any) -> Any:
    """A copy with the same strides at the same address modulo 64: at another one BLAS may compute other bits."""
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
    """A plan from everyday sentences, or without any where the model has no tokenizer."""
    from clearhead.engine.calibrate import calibrate_int8
    from clearhead.engine.int8 import Int8Plan

    if tokenizer is None or shape.decoder is not None:  # what writes has a scale for each token, and needs no plan
        return Int8Plan()
    return calibrate_int8(shape, tensors, [one.ids for one in tokenizer.encode_ids(SENTENCES)])
