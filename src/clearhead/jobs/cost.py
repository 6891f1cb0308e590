"""Cost of a run: time and memory."""

from __future__ import annotations

import resource
import time
from pathlib import Path

from clearhead.training.log import read_log


def measure_cost(folder: Path, started: float, fit_seconds: float) -> dict[str, float]:
    """Measure the cost of a run from its log and this process."""
    cost = {"seconds": round(time.perf_counter() - started, 1), "fitting seconds": round(fit_seconds, 3)}
    tokens = seconds = 0.0
    for step in read_log(folder):
        tokens += step["tokens"]
        seconds += step["seconds"]
    if seconds:
        cost |= {"training seconds": round(seconds, 1), "tokens per second": round(tokens / seconds)}
    cost["peak memory MB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return cost
