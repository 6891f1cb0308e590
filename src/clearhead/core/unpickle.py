"""Read a pickled checkpoint with `weights_only` and write safetensors; run as a child process, never imported."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from clearhead.checkpoint.weights import write_tensors

NAMES = ("pytorch_model.bin", "model.bin")
INDEX = "pytorch_model.bin.index.json"


def main(source: Path, destination: Path) -> None:
    """Every floating-point tensor of the pickle, under its own name."""
    files = [source / name for name in NAMES if (source / name).is_file()][:1]
    if not files and (source / INDEX).is_file():
        shards = sorted(set(json.loads((source / INDEX).read_text())["weight_map"].values()))
        if any("/" in shard or "\\" in shard or ".." in shard for shard in shards):
            raise SystemExit("the index names a file outside the folder")
        files = [source / shard for shard in shards]
    if not files:
        raise SystemExit("there is no pytorch_model.bin")
    tensors = {}
    for file in files:
        state = torch.load(file, map_location="cpu", weights_only=True)
        if not isinstance(state, dict):
            raise SystemExit(f"{file.name} holds a {type(state).__name__}, expected named tensors")
        for name, value in state.get("state_dict", state).items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                tensors[str(name)] = value.detach().to(torch.float32).contiguous().numpy()
    write_tensors(destination, tensors.items(), 1 << 40)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except Exception as error:  # the parent turns this line into one sentence
        raise SystemExit(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from None
