"""Training within a time limit: time the first steps, then plan once how many steps fit.

The learning-rate schedule depends on the number of steps: a run that were merely cut off would end at a high rate. The
plan is saved with the state, so that every later step is still a pure function of (seed, epoch, step). The clock ends a
run before its plan only if the machine becomes slower.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.training.state import TrainingProgress

TIMED_STEPS = 8  # timed before planning
WARMUP_STEPS = 2  # first timed steps, ignored because they fill caches
TRAINING_FRACTION = 0.9  # fraction of the time for training steps; the remainder is for scoring the dev rows
PLANNING_DEADLINE = 0.2  # fraction of the time after which slow steps are planned, even if few were timed


class TimeBudget:
    """The time limit of one run, which may span several processes; reads and updates the run's progress."""

    def __init__(self, seconds: float, progress: TrainingProgress) -> None:
        self.seconds = seconds
        self._progress = progress
        self._last_time = time.perf_counter()
        self._timings: list[tuple[int, float]] = []  # (tokens, seconds) of each step of this process

    @property
    def is_spent(self) -> bool:
        """Whether the time is used up."""
        return self._progress.seconds >= self.seconds

    def record_step(self, tokens: int, seconds: float, steps: int, remaining_tokens: Iterable[int]) -> int:
        """Record a step of `tokens` tokens, plan the run when that is due, and return its total number of steps.

        `steps` is the current total, `remaining_tokens` the number of tokens of each remaining step.
        """
        progress, now = self._progress, time.perf_counter()
        progress.seconds += now - self._last_time
        self._last_time = now
        self._timings.append((tokens, seconds))
        is_due = progress.seconds >= PLANNING_DEADLINE * self.seconds
        if progress.planned is not None or (len(self._timings) < TIMED_STEPS and not is_due):
            return steps
        timings = self._timings[WARMUP_STEPS:] or self._timings[-1:]
        seconds_per_token = sum(elapsed for _, elapsed in timings) / max(sum(count for count, _ in timings), 1)
        seconds_left = TRAINING_FRACTION * (self.seconds - progress.seconds)
        planned_steps = progress.step
        for count in remaining_tokens:
            seconds_left -= count * seconds_per_token
            if seconds_left < 0:
                break
            planned_steps += 1
        progress.planned = min(planned_steps, steps)
        return progress.planned
