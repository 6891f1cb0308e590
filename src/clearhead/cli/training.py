"""What a training run shows while it goes: a bar with loss, rate, speed and time left, and a line per epoch."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.cli.screen import StageBars, say

if TYPE_CHECKING:
    from clearhead.api.support import TrainingStep

RECENT = 20  # steps that the shown loss and speed are means of
NOTICED = b"\nstopping after this step; press Ctrl-C again to stop at once\n"


@contextmanager
def resumable(verb: str, begun: list[Path], *, quiet: bool) -> Iterator[None]:
    """Name the command that resumes a run which Ctrl-C stops; `begun` holds its folder once it can be resumed."""
    from clearhead.api.support import TrainingInterrupted, on_stop_request

    def notice() -> None:
        if not quiet:
            os.write(2, NOTICED)  # in a signal handler: the stream itself may be in use

    try:
        with on_stop_request(notice):
            yield
    except KeyboardInterrupt as error:
        where = f"{error}." if isinstance(error, TrainingInterrupted) else "stopped."
        if begun:
            say(f"{where}\nresume with: clearhead {verb} --resume {shlex.quote(str(begun[0]))}")
            error.reported = True  # type: ignore[attr-defined]  # nothing more is said of it
        raise


class TrainingScreen:
    """A bar where there is a terminal; lines at the ends of epochs in any case, unless nobody wants them."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._task: Any = None
        self._stages: StageBars | None = None
        self._losses: deque[float] = deque(maxlen=RECENT)
        self._speeds: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._loss = self._speed = 0.0  # of the last steps

    def __enter__(self) -> TrainingScreen:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            figures = TextColumn("{task.fields[figures]}")
            self._bar = Progress(*parts, figures, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._stages = StageBars(self._bar, figures="")
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def message(self, line: str) -> None:
        """A remark above the bar."""
        if self._bar is not None:
            from rich.text import Text

            self._bar.console.print(Text(line))
        else:
            say(line, quiet=self._quiet)

    def progress(self, stage: str, done: int, total: int | None, /) -> None:
        """How far something before or beside the steps is."""
        if self._stages is not None:
            self._stages(stage, done, total)

    def seed_started(self, seed: int, place: int, many: int) -> None:
        """Another of several runs begins."""
        if many > 1:
            self.message(f"seed {seed} ({place + 1} of {many})")
        if self._bar is not None and self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None

    def training_step(self, step: TrainingStep) -> None:
        """One more step, and a line where an epoch ends."""
        self.pretraining_step(step)
        loss, speed = self._loss, self._speed
        if step.score is not None:  # higher is better: an error or a loss counts below zero
            best = " (best so far)" if step.best else ""
            dev = f"{step.score:.4f}" if math.isfinite(step.score) else "not defined"
            self.message(f"epoch {step.epoch + 1}: loss {loss:.3f}, dev {dev}{best}, {speed:,.0f} tokens/s")

    def pretraining_step(self, step: TrainingStep) -> None:
        """One more step on the bar."""
        self._losses.append(step.loss)
        self._speeds.append((step.tokens, step.seconds))
        self._loss = loss = sum(self._losses) / len(self._losses)
        spent = sum(seconds for _, seconds in self._speeds)
        self._speed = speed = sum(tokens for tokens, _ in self._speeds) / max(spent, 1e-9)
        if self._bar is not None:
            if self._stages is not None:
                self._stages.hide()
            figures = f"loss {loss:.3f}  rate {step.rate:.1e}  {speed:,.0f} tokens/s"
            if self._task is None:
                self._task = self._bar.add_task("training", total=step.steps, figures=figures)
            self._bar.update(self._task, completed=step.step, total=step.steps, figures=figures)
