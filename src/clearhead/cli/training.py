"""Progress of a training run: a bar with loss, learning rate, speed and remaining time, and a line per epoch."""

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

from clearhead.cli.screen import StageBars, print_note
from clearhead.cli.verbose import StageTimer, is_verbose

if TYPE_CHECKING:
    from clearhead.api.support import TrainingStep

RECENT = 20  # steps that loss and speed are averaged over
STOP_NOTICE = b"\nstopping after this step; press Ctrl-C again to stop at once\n"


@contextmanager
def resumable(verb: str, started: list[Path], *, quiet: bool) -> Iterator[None]:
    """Print the command that resumes a run after Ctrl-C; `started` holds its folder once it can be resumed."""
    from clearhead.api.support import TrainingInterrupted, on_stop_request

    def notice() -> None:
        if not quiet:
            os.write(2, STOP_NOTICE)  # in a signal handler: the stream itself may be in use

    try:
        with on_stop_request(notice):
            yield
    except KeyboardInterrupt as error:
        reason = f"{error}." if isinstance(error, TrainingInterrupted) else "stopped."
        if started:
            print_note(f"{reason}\nresume with: clearhead {verb} --resume {shlex.quote(str(started[0]))}")
            error.reported = True  # type: ignore[attr-defined]  # `main` prints nothing more
        raise


class TrainingScreen:
    """A progress bar on a terminal, and a line at the end of each epoch; nothing with `quiet`."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._task: Any = None
        self._stages: StageBars | None = None
        self._timer = StageTimer(None) if is_verbose() else None
        self._losses: deque[float] = deque(maxlen=RECENT)
        self._speeds: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._loss = self._speed = 0.0  # means over recent steps

    def __enter__(self) -> TrainingScreen:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            figures = TextColumn("{task.fields[figures]}")
            self._bar = Progress(*columns, figures, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._stages = StageBars(self._bar, figures="")
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._timer is not None:
            self._timer.stop()

    def message(self, line: str) -> None:
        """Print a line above the bar."""
        if self._bar is not None:
            from rich.text import Text

            self._bar.console.print(Text(line))
        else:
            print_note(line, quiet=self._quiet)

    def progress(self, stage: str, done: int, total: int | None, /) -> None:
        """Show the progress of a stage other than training steps."""
        if self._timer is not None:
            self._timer(stage, done, total)
        if self._stages is not None:
            self._stages(stage, done, total)

    def seed_started(self, seed: int, index: int, count: int) -> None:
        """Announce the next of several runs."""
        if count > 1:
            self.message(f"seed {seed} ({index + 1} of {count})")
        if self._bar is not None and self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None

    def training_step(self, step: TrainingStep) -> None:
        """Show a step, and print a line at the end of an epoch."""
        self.pretraining_step(step)
        if step.score is not None:  # higher is better: errors and losses are negative
            best = " (best so far)" if step.best else ""
            score = f"{step.score:.4f}" if math.isfinite(step.score) else "undefined"
            figures = f"loss {self._loss:.3f}, dev {score}{best}, {self._speed:,.0f} tokens/s"
            self.message(f"epoch {step.epoch + 1}: {figures}")

    def pretraining_step(self, step: TrainingStep) -> None:
        """Show a step on the bar."""
        if self._timer is not None:
            self._timer("training steps", step.step, step.steps)
        self._losses.append(step.loss)
        self._speeds.append((step.tokens, step.seconds))
        self._loss = sum(self._losses) / len(self._losses)
        seconds = sum(duration for _, duration in self._speeds)
        self._speed = sum(tokens for tokens, _ in self._speeds) / max(seconds, 1e-9)
        if self._bar is not None:
            if self._stages is not None:
                self._stages.hide()
            figures = f"loss {self._loss:.3f}  lr {step.rate:.1e}  {self._speed:,.0f} tokens/s"
            if self._task is None:
                self._task = self._bar.add_task("training", total=step.steps, figures=figures)
            self._bar.update(self._task, completed=step.step, total=step.steps, figures=figures)
