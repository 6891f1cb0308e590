"""Read a pickled checkpoint with `weights_only` and write safetensors; run as a child process, never imported."""

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
MAX_GROWTH = 8  # half precision becomes single, and a tied tensor is written under each of its names


def convert(source: Path, destination: Path) -> None:
    """Every floating-point tensor of the pickle, under its own name."""
    files = [resolve_inside(source, name) for name in NAMES if (source / name).is_file()][:1] or _shards(source)
    room = MAX_GROWTH * sum(file.stat().st_size for file in files)
    tensors = {}
    for file in files:
        for name, value in _read(file).items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                room -= 4 * value.numel()
                if room < 0:  # a stride of zero makes any size out of one number
                    raise UnsafeError(f"{file.name} promises more numbers than it holds")
                tensors[str(name)] = value.detach().to(torch.float32).contiguous().numpy()
    write_tensors(destination, tensors.items(), 1 << 40)


def _shards(source: Path) -> list[Path]:
    where = read_json(resolve_inside(source, INDEX), unique_keys=True).get("weight_map")
    if not isinstance(where, dict) or not where or not all(isinstance(shard, str) for shard in where.values()):
        raise UnsafeError(f"{INDEX} has no weight_map from tensor names to files")
    return [resolve_inside(source, shard) for shard in sorted(set(where.values()))]


def _read(file: Path) -> dict[Any, Any]:
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # torch's own message advises to try again without the guard: keep only what it refused
        asked = re.search(r"GLOBAL (\S+)", str(error))
        what = f"it asks for {asked[1]}" if asked else "it is no plain checkpoint"
        raise UnsafeError(f"{file.name} holds more than weights: {what}") from None
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, dict):
        raise UnsafeError(f"{file.name} holds a {type(state).__name__}, expected named tensors")
    return state


if __name__ == "__main__":
    try:
        convert(Path(sys.argv[1]), Path(sys.argv[2]))
    except UnsafeError as error:
        raise SystemExit(str(error)) from None
    except Exception as error:  # the parent turns this line into one sentence
        raise SystemExit(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from None
