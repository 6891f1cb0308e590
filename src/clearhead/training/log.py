"""The log of a run: a line of JSON per step, always; a TensorBoard file beside it where that is installed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import ClearheadError

if TYPE_CHECKING:
    from clearhead.training.loop import Step

NAME = "log.jsonl"


class RunLog:
    """Appends steps; a resumed run first forgets the steps after its last saved state."""

    def __init__(self, folder: Path, done: int) -> None:
        self.path = folder / NAME
        try:
            self._file = self.path.open("r+b" if self.path.exists() else "w+b")
            self._file.truncate(_until(self._file, done))
            self._file.seek(0, os.SEEK_END)
        except OSError as error:
            raise self._cannot(error) from error
        self._board = _tensorboard(folder, done)

    def write(self, step: Step) -> None:
        """One more step; the line is with the system before the next one begins."""
        line = {key: value for key, value in asdict(step).items() if value is not None}
        if step.score is None:
            line.pop("best")
        try:
            self._file.write((json.dumps(line) + "\n").encode())
            self._file.flush()
        except OSError as error:
            raise self._cannot(error) from error
        if self._board is not None:
            for name in ("loss", "rate", "gradient", "score"):
                if name in line:
                    self._board.add_scalar(name, line[name], step.step)

    def close(self) -> None:
        """Bring the last lines to disk."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise self._cannot(error) from error
        if self._board is not None:
            self._board.close()

    def _cannot(self, error: OSError) -> ClearheadError:
        return ClearheadError(f"{self.path} cannot be written: {error.strerror or error}.")


def read_log(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a log; a torn last line is left out."""
    path = folder / NAME
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def _until(file: Any, done: int) -> int:
    """Where the lines of the steps up to `done` end."""
    end = 0
    for line in file:
        try:
            step = json.loads(line)["step"]
        except (ValueError, KeyError, TypeError):
            break
        if not line.endswith(b"\n") or step > done:
            break
        end += len(line)
    return end


def _tensorboard(folder: Path, done: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=done + 1)
