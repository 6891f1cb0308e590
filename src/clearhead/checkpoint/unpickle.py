"""The parent's side of reading a pickle: a child process reads it, this one only sees safetensors."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clearhead.checkpoint.weights import INDEX, SINGLE, inside
from clearhead.errors import CheckpointError, UnsafeError
from clearhead.files import scratch_folder, shown

CHILD_SECONDS = 3600
COPIED = (".json", ".txt", ".bpe", ".model", ".spm", ".safetensors")
PICKLED = ("pytorch_model.bin", "model.bin", "pytorch_model.bin.index.json")


@contextmanager
def unpickled(folder: Path) -> Iterator[Path]:
    """A temporary copy of a model folder in which the pickle has become model.safetensors."""
    with scratch_folder() as made:
        place = made / "model"
        _convert(folder, place)
        for module in _modules(folder):
            _convert(module, place / module.name)
        yield place


def has_pickle(folder: Path) -> bool:
    """Whether a model folder, or one of its modules, has its weights in a pickle and nowhere else."""
    return any(_pickled(place) for place in (folder, *_modules(folder)))


def _modules(folder: Path) -> list[Path]:
    return [inside(folder, path.name) for path in sorted(folder.glob("[0-9]*_*")) if path.is_dir()]


def _pickled(folder: Path) -> bool:
    safe = any((folder / name).exists() for name in (SINGLE, INDEX))
    return not safe and any((folder / name).is_file() for name in PICKLED)


def _convert(source: Path, destination: Path) -> None:
    """Copy the files that a model needs, links out of the folder refused; then the pickle, if there is one."""
    destination.mkdir(exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.suffix in COPIED and inside(source, path.name).is_file():
            shutil.copyfile(path, destination / path.name)
    if _pickled(source):
        _child(source, destination)


def _child(source: Path, destination: Path) -> None:
    command = [sys.executable, "-I", "-m", "clearhead.core.unpickle", str(source.resolve()), str(destination)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise CheckpointError(f"Reading the pickle in {source} took too long and was stopped.") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        reason = lines[-1] if lines else f"the child process ended with {done.returncode}"
        raise UnsafeError(f"The pickle in {source} cannot be read safely: {shown(reason, 300)}.")
