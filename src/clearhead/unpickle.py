"""The parent's side of reading a pickle: a child process reads it, this one only sees safetensors."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clearhead.errors import CheckpointError

CHILD_SECONDS = 3600


@contextmanager
def unpickled(folder: Path) -> Iterator[Path]:
    """A temporary copy of a model folder in which the pickle has become model.safetensors."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made) / folder.name
        place.mkdir()
        for path in sorted(folder.iterdir()):
            if path.is_file() and path.suffix not in (".bin", ".pt", ".pth", ".h5", ".msgpack", ".ot", ".onnx"):
                shutil.copyfile(path, place / path.name)
        for module in sorted(path for path in folder.glob("[0-9]*_*") if path.is_dir()):
            shutil.copytree(module, place / module.name, ignore=shutil.ignore_patterns("*.bin"))
            if (module / "pytorch_model.bin").exists() and not (module / "model.safetensors").exists():
                _child(module, place / module.name)
        _child(folder, place)
        yield place


def _child(source: Path, destination: Path) -> None:
    command = [sys.executable, "-I", "-m", "clearhead.core.unpickle", str(source.resolve()), str(destination)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise CheckpointError(f"Reading the pickle in {source} took too long and was stopped.") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        reason = lines[-1] if lines else f"the child process ended with {done.returncode}"
        raise CheckpointError(f"The pickle in {source} cannot be read safely: {reason[:300]}")
