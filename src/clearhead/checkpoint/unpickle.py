"""Convert pickled weights in a child process, so that this process only reads safetensors files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clearhead.checkpoint.weights import INDEX_FILE, WEIGHTS_FILE, resolve_inside
from clearhead.errors import CheckpointError, UnsafeError
from clearhead.files import scratch_folder, to_printable

CHILD_TIMEOUT = 3600  # seconds
COPIED_SUFFIXES = (".json", ".txt", ".bpe", ".model", ".spm", ".safetensors")
WEIGHT_PICKLES = ("pytorch_model.bin", "model.bin", "pytorch_model.bin.index.json")


@contextmanager
def convert_pickles(folder: Path) -> Iterator[Path]:
    """Yield a temporary copy of a model folder with its pickles converted to model.safetensors."""
    with scratch_folder() as scratch:
        copy = scratch / "model"
        _convert_folder(folder, copy)
        for module in _list_module_folders(folder):
            _convert_folder(module, copy / module.name)
        yield copy


def has_pickle(folder: Path) -> bool:
    """Whether a model folder or one of its modules only has pickled weights."""
    return any(_has_only_pickle(model_folder) for model_folder in (folder, *_list_module_folders(folder)))


def _list_module_folders(folder: Path) -> list[Path]:
    return [resolve_inside(folder, path.name) for path in sorted(folder.glob("[0-9]*_*")) if path.is_dir()]


def _has_only_pickle(folder: Path) -> bool:
    has_safetensors = any((folder / name).exists() for name in (WEIGHTS_FILE, INDEX_FILE))
    return not has_safetensors and any((folder / name).is_file() for name in WEIGHT_PICKLES)


def _convert_folder(source: Path, destination: Path) -> None:
    """Copy the files that a model needs and convert its pickle, if any; links that leave the folder are refused."""
    destination.mkdir(exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.suffix in COPIED_SUFFIXES and resolve_inside(source, path.name).is_file():
            shutil.copyfile(path, destination / path.name)
    if _has_only_pickle(source):
        _run_child(source, destination)


def _run_child(source: Path, destination: Path) -> None:
    command = [sys.executable, "-I", "-m", "clearhead.core.unpickle", str(source.resolve()), str(destination)]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_TIMEOUT, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise CheckpointError(f"Reading the pickle in {source} exceeded {CHILD_TIMEOUT} s and was stopped.") from None
    if process.returncode != 0:
        lines = process.stderr.strip().splitlines()
        reason = lines[-1] if lines else f"the child process exited with code {process.returncode}"
        raise UnsafeError(f"The pickle in {source} cannot be read safely: {to_printable(reason, 300)}.")
