"""Training for a number of minutes: the first steps are timed, and the rest is planned once to fit the time.

The learning-rate schedule needs to know where it ends, so a run that is only cut off would end at a high rate. The plan
is made once and saved with the state; from there on every step is a function of (seed, epoch, step) as ever. Only if
the machine becomes slower later does the clock end the run before its plan.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.training.state import TrainingProgress

TIMED_STEPS = 8  # steps before the plan is made, ...
WARMUP_STEPS = 2  # ... of which so many only fill caches
TRAINING_SHARE = 0.9  # of the time is planned for steps; the dev rows are measured in the rest
EARLY_SHARE = 0.2  # of the time: slow steps are planned after it, however few there were


class TimeBudget:
    """The time of one run, also over several processes; it reads and writes the run's progress."""

    def __init__(self, seconds: float, progress: TrainingProgress) -> None:
        self.seconds = seconds
        self._progress = progress
        self._last = time.perf_counter()
        self._timed: list[tuple[int, float]] = []  # tokens and seconds of the steps in this process

    @property
    def is_spent(self) -> bool:
        """Whether the time is over."""
        return self._progress.seconds >= self.seconds

    def spend(self, tokens: int, seconds: float, steps: int, ahead: Iterable[int]) -> int:
        """Note a step of so many tokens; returns the steps of the whole run, planned anew where that is due.

        `steps` are those planned so far, and `ahead` the tokens of every step that is left of them.
        """
        progress, now = self._progress, time.perf_counter()
        progress.seconds += now - self._last
        self._last = now
        self._timed.append((tokens, seconds))
        slow = progress.seconds >= EARLY_SHARE * self.seconds
        if progress.planned is not None or (len(self._timed) < TIMED_STEPS and not slow):
            return steps
        timed = self._timed[WARMUP_STEPS:] or self._timed[-1:]
        per_token = sum(spent for _, spent in timed) / max(sum(count for count, _ in timed), 1)
        left = TRAINING_SHARE * (self.seconds - progress.seconds)
        fitting = progress.step
        for count in ahead:
            left -= count * per_token
            if left < 0:
                break
            fitting += 1
        progress.planned = min(fitting, steps)
        return progress.planned
