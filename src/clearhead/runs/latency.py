"""What a trained folder costs in use: the time of one text, and its size on disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from clearhead.data import Row, Source
from clearhead.runs.finish import METRICS, REPORT, SPLIT
from clearhead.runs.network import STATE
from clearhead.runs.predict import predictions
from clearhead.runs.predictor import Predictor

WARM = 3  # predictions before the clock runs
LEAST, MOST = 20, 100  # predictions that are timed
ENOUGH = 3.0  # seconds after which the least will do
UNUSED_FILES = {METRICS, REPORT, SPLIT, "run.json", "log.jsonl"}
UNUSED_FOLDERS = {STATE, "seeds", "tensorboard"}


def latency_ms(predictor: Predictor, source: Source, rows: Sequence[Row]) -> float:
    """Milliseconds from a row to its answer, one row at a time: the median over real rows."""
    columns = predictor.columns_in(source, labelled=False)

    def alone(row: Row) -> Source:
        return replace(source, open=lambda: iter([row]))

    each = [alone(row) for row in rows]

    def timed(number: int) -> float:
        begun = time.perf_counter()
        list(predictions(predictor, each[number % len(each)], columns, skip_bad_rows=True))
        return time.perf_counter() - begun

    for number in range(WARM):
        timed(number)
    spent: list[float] = []
    while len(spent) < LEAST or (len(spent) < MOST and sum(spent) < ENOUGH):
        spent.append(timed(len(spent)))
    return 1000 * median(spent)


def megabytes(folder: Path) -> float:
    """The files of a run that are needed to predict with it."""
    total = 0
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if path.is_file() and inside.parts[0] not in UNUSED_FOLDERS and path.name not in UNUSED_FILES:
            total += path.stat().st_size
    return total / 1e6
