"""Events that a run reports to its caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.progress import Progress, no_progress

if TYPE_CHECKING:
    from clearhead.training.loop import TrainingStep


@dataclass(frozen=True, kw_only=True)
class RunEvents:
    """Callbacks of a run; by default nothing is reported."""

    message: Callable[[str], None] = lambda _: None
    started: Callable[[Path], None] = lambda _: None  # from here on the run can be resumed
    seed_started: Callable[[int, int, int], None] = lambda *_: None  # (seed, index, number of seeds)
    training_step: Callable[[TrainingStep], None] = lambda _: None
    progress: Progress = no_progress
    download: Progress | None = None


NO_EVENTS = RunEvents()
