"""Converts a pickled checkpoint to safetensors with `weights_only`; run as a child process, never imported."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path
from typing import Any

import torch

from clearhead.checkpoint.weights import resolve_inside, write_tensors
from clearhead.errors import UnsafeError
from clearhead.files import read_json

NAMES = ("pytorch_model.bin", "model.bin")
INDEX = "pytorch_model.bin.index.json"
MAX_GROWTH = 8  # float16 becomes float32, and a tied tensor is written under each of its names


def convert(source: Path, destination: Path) -> None:
    """Write every floating-point tensor of the pickle under its name."""
    files = [resolve_inside(source, name) for name in NAMES if (source / name).is_file()][:1] or _shards(source)
    remaining_bytes = MAX_GROWTH * sum(file.stat().st_size for file in files)
    tensors = {}
    for file in files:
        for name, value in _read(file).items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                remaining_bytes -= 4 * value.numel()
                if remaining_bytes < 0:  # with a stride of zero, a single value can claim any size
                    raise UnsafeError(f"{file.name} declares more values than it stores")
                tensors[str(name)] = value.detach().to(torch.float32).contiguous().numpy()
    write_tensors(destination, tensors.items(), 1 << 40)


def _shards(source: Path) -> list[Path]:
    weight_map = read_json(resolve_inside(source, INDEX), unique_keys=True).get("weight_map")
    if (
        not isinstance(weight_map, dict)
        or not weight_map
        or not all(isinstance(shard, str) for shard in weight_map.values())
    ):
        raise UnsafeError(f"{INDEX} has no weight_map that maps tensor names to files")
    return [resolve_inside(source, shard) for shard in sorted(set(weight_map.values()))]


def _read(file: Path) -> dict[Any, Any]:
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # torch's message recommends loading without weights_only: report only what it refused
        imported = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"it imports {imported[1]}" if imported else "it is not a plain checkpoint"
        raise UnsafeError(f"{file.name} contains more than weights: {reason}") from None
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, dict):
        raise UnsafeError(f"{file.name} contains a {type(state).__name__}, expected named tensors")
    return state


if __name__ == "__main__":
    try:
        convert(Path(sys.argv[1]), Path(sys.argv[2]))
    except UnsafeError as error:
        raise SystemExit(str(error)) from None
    except Exception as error:  # the parent process reports this line
        raise SystemExit(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from None
