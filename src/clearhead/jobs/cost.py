"""What a run took."""

from __future__ import annotations

import resource
import time
from pathlib import Path

from clearhead.training.log import read_log


def measure_cost(folder: Path, begun: float, fitted: float) -> dict[str, float]:
    """What the run took, from its log and this process."""
    made = {"seconds": round(time.perf_counter() - begun, 1), "fitting seconds": round(fitted, 3)}
    tokens = seconds = 0.0
    for line in read_log(folder):
        tokens += line["tokens"]
        seconds += line["seconds"]
    if seconds:
        made |= {"training seconds": round(seconds, 1), "tokens per second": round(tokens / seconds)}
    made["peak memory MB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return made
