"""The log of a run: one line of JSON per step, and a TensorBoard file where tensorboard is installed."""

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
MAX_COUNT = 1 << 53  # of steps, rows or tokens: larger integers are not exact in JSON
MAX_LINE_BYTES = 1 << 16


class RunLog:
    """Appends steps to the log; a resumed run first drops the steps after its last saved state."""

    def __init__(self, folder: Path, steps_done: int) -> None:
        self.path = folder / LOG_FILE
        end = 0
        if self.path.is_symlink():  # the run must not write to its target
            raise self._write_error(OSError(errno.ELOOP, "it is a symbolic link"))
        if has_entry(folder, LOG_FILE):
            with explain_read_errors(self.path), self.path.open("rb") as file:
                end = _find_end_of_step(file, self.path, steps_done)
        try:
            self._file = self.path.open("r+b" if end else "w+b")
            self._file.truncate(end)
            self._file.seek(0, os.SEEK_END)
        except OSError as error:
            raise self._write_error(error) from error
        self._tensorboard = _open_tensorboard(folder, steps_done)

    def write(self, step: TrainingStep) -> None:
        """Append a step; its line is flushed before the next step starts."""
        values = {key: value for key, value in asdict(step).items() if value is not None}
        if step.score is None:
            values.pop("best")
        try:
            self._file.write((json.dumps(values) + "\n").encode())
            self._file.flush()
        except OSError as error:
            raise self._write_error(error) from error
        if self._tensorboard is not None:
            for name in ("loss", "rate", "gradient", "score"):
                if name in values:
                    self._tensorboard.add_scalar(name, values[name], step.step)

    def close(self) -> None:
        """Flush the last lines to disk and close the files."""
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
    """The fields of a log line that are checked; other keys are kept as they are."""

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
        """What is wrong with the values, if anything."""
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
        return next((message for is_valid, message in rules if not is_valid), None)


def read_log(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the checked lines of a log; an incomplete last line is left out."""
    path = folder / LOG_FILE
    if not has_entry(folder, LOG_FILE):
        return
    with explain_read_errors(path), path.open("rb") as file:
        yield from (line for line, _ in _iterate_lines(file, path))


def _iterate_lines(file: IO[bytes], path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the values and the end offset of each complete line; raise a CheckpointError at the first damaged one."""
    end, previous_step = 0, 0
    for line_number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
        if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
            return  # incomplete: the run was killed while writing it
        location = f"{path.name} line {line_number}"
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            raise CheckpointError(f"{location} is damaged: not a JSON object.") from None
        entry = decode_dataclass(values, LogLine, location)
        problem = (
            entry.find_problem() if entry.step > previous_step else f"step {entry.step} after step {previous_step}"
        )
        if problem is not None:
            raise CheckpointError(f"{location} is damaged: {problem}.")
        previous_step, end = entry.step, end + len(line)
        yield values, end


def _find_end_of_step(file: IO[bytes], path: Path, steps_done: int) -> int:
    """The offset in bytes at which the lines of the first `steps_done` steps end."""
    end = 0
    for line, line_end in _iterate_lines(file, path):
        if line["step"] > steps_done:
            break
        end = line_end
    return end


def _open_tensorboard(folder: Path, steps_done: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=steps_done + 1)
