"""The log of a run: a line of JSON per step, always; a TensorBoard file beside it where that is installed."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from clearhead.checkpoint.weights import has_entry
from clearhead.errors import CheckpointError, ClearheadError
from clearhead.files import decode_dataclass, explain_read_errors, to_printable

if TYPE_CHECKING:
    from clearhead.training.loop import TrainingStep

LOG_FILE = "log.jsonl"
MAX_COUNT = 1 << 53  # whatever is counted: numbers up to here are exact in JSON
MAX_LINE_BYTES = 1 << 16  # bytes


class RunLog:
    """Appends steps; a resumed run first forgets the steps after its last saved state."""

    def __init__(self, folder: Path, done: int) -> None:
        self.path = folder / LOG_FILE
        end = 0
        if self.path.is_symlink():  # its target is not the run's to change
            raise self._write_error(OSError(errno.ELOOP, "it is a link"))
        if has_entry(folder, LOG_FILE):
            with explain_read_errors(self.path), self.path.open("rb") as file:
                end = _find_end(file, self.path, done)
        try:
            self._file = self.path.open("r+b" if end else "w+b")
            self._file.truncate(end)
            self._file.seek(0, os.SEEK_END)
        except OSError as error:
            raise self._write_error(error) from error
        self._tensorboard = _tensorboard(folder, done)

    def write(self, step: TrainingStep) -> None:
        """One more step; the line is with the system before the next one begins."""
        line = {key: value for key, value in asdict(step).items() if value is not None}
        if step.score is None:
            line.pop("best")
        try:
            self._file.write((json.dumps(line) + "\n").encode())
            self._file.flush()
        except OSError as error:
            raise self._write_error(error) from error
        if self._tensorboard is not None:
            for name in ("loss", "rate", "gradient", "score"):
                if name in line:
                    self._tensorboard.add_scalar(name, line[name], step.step)

    def close(self) -> None:
        """Bring the last lines to disk."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise self._write_error(error) from error
        if self._tensorboard is not None:
            self._tensorboard.close()

    def _write_error(self, error: OSError) -> ClearheadError:
        return ClearheadError(f"{self.path} cannot be written: {error.strerror or error}.")


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """A line of the log as it must be; what is not named here is kept as it stands."""

    step: int
    loss: float
    tokens: int
    seconds: float
    epoch: int = 0
    steps: int = 0
    rows: int = 0
    rate: float = 0.0
    gradient: float = 0.0
    score: float | None = None
    best: bool = False

    def find_problem(self) -> str | None:
        """What cannot be, if anything."""
        rules = (
            (self.step >= 1, f"step must be at least 1, got {self.step}"),
            (math.isfinite(self.loss), f"loss must be finite, got {self.loss}"),
            (math.isfinite(self.rate) and math.isfinite(self.gradient), "rate and gradient must be finite"),
            (
                0 <= self.tokens <= MAX_COUNT,
                f"tokens must be from 0 to {MAX_COUNT:,}, got {to_printable(self.tokens, 30)}",
            ),
            (0 <= self.seconds < math.inf, f"seconds must be finite and at least 0, got {self.seconds}"),
            (min(self.epoch, self.steps, self.rows) >= 0, "epoch, steps and rows must be at least 0"),
            (max(self.step, self.epoch, self.steps, self.rows) <= MAX_COUNT, f"counts must be at most {MAX_COUNT:,}"),
            (self.score is None or self.score < math.inf, "score must be below infinity"),
        )
        return next((said for holds, said in rules if not holds), None)


def read_log(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a log, each checked; a torn last line is left out."""
    path = folder / LOG_FILE
    if not has_entry(folder, LOG_FILE):
        return
    with explain_read_errors(path), path.open("rb") as file:
        yield from (line for line, _ in _iterate_lines(file, path))


def _iterate_lines(file: IO[bytes], path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Every whole line as values, and where it ends; one sentence for the first that is damaged."""
    end, before = 0, 0
    for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
        if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
            return  # a kill tore it
        what = f"{path.name} line {number}"
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            raise CheckpointError(f"{what} is damaged: it is not a JSON object.") from None
        made = decode_dataclass(values, LogLine, what)
        problem = made.find_problem() if made.step > before else f"step {made.step} follows step {before}"
        if problem is not None:
            raise CheckpointError(f"{what} is damaged: {problem}.")
        before, end = made.step, end + len(line)
        yield values, end


def _find_end(file: IO[bytes], path: Path, done: int) -> int:
    """Where the lines of the steps up to `done` end."""
    end = 0
    for line, here in _iterate_lines(file, path):
        if line["step"] > done:
            break
        end = here
    return end


def _tensorboard(folder: Path, done: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=done + 1)
