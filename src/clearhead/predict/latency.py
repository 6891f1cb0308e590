"""Serving cost of a model folder: latency of one text, and size on disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from clearhead.data import Columns, Row, Source, TextRow
from clearhead.jobs.run_folder import METRICS_FILE, REPORT_FILE, SPLIT_FILE
from clearhead.jobs.training_state import STATE_FOLDER
from clearhead.predict.predictor import Predictor
from clearhead.predict.stream import answer_rows

WARMUP_PREDICTIONS = 3  # predictions before timing starts
MIN_PREDICTIONS, MAX_PREDICTIONS = 20, 100  # timed predictions
ENOUGH_SECONDS = 3.0  # timing stops after this, once the minimum is reached
REPORT_PREDICTIONS, REPORT_SECONDS = 20, 1.0  # limits in a report
UNUSED_FILES = {METRICS_FILE, REPORT_FILE, SPLIT_FILE, "run.json", "log.jsonl"}
UNUSED_FOLDERS = {STATE_FOLDER, "seeds", "tensorboard", "onnx", "openvino"}  # the last two: exports by other tools
DUPLICATE_WEIGHTS = {".bin", ".h5", ".ot", ".msgpack", ".ckpt"}  # copies of the safetensors weights in other formats


def measure_latency_ms(
    predictor: Predictor,
    source: Source,
    columns: Columns,
    rows: Sequence[Row],
    *,
    warmup: int = WARMUP_PREDICTIONS,
    min_predictions: int = MIN_PREDICTIONS,
    max_predictions: int = MAX_PREDICTIONS,
    enough_seconds: float = ENOUGH_SECONDS,
) -> float:
    """Measure the median milliseconds from one row to its answer, over usable rows."""
    input_columns = replace(columns, label=None, split=None)

    def open_row(row: Row) -> Source:
        return replace(source, open=lambda: iter([row]))

    row_sources = [open_row(row) for row in rows]

    def time_prediction(number: int) -> float:
        started = time.perf_counter()
        list(answer_rows(predictor, row_sources[number % len(row_sources)], input_columns, skip_bad_rows=True))
        return time.perf_counter() - started

    for number in range(warmup):
        time_prediction(number)
    durations: list[float] = []
    while len(durations) < min_predictions or (len(durations) < max_predictions and sum(durations) < enough_seconds):
        durations.append(time_prediction(len(durations)))
    return 1000 * median(durations)


def measure_serving_cost(predictor: Predictor, source: Source, columns: Columns) -> dict[str, float]:
    """Measure latency and size on disk in about a second."""
    input_columns, check = replace(columns, label=None, split=None), predictor.task.rows.check_row
    rows = [row for row in source.sample(2 * REPORT_PREDICTIONS) if isinstance(row, Row)]
    usable = [row for row in rows if isinstance(check(row, input_columns, predictor.space), TextRow)][
        :REPORT_PREDICTIONS
    ]
    cost = {"size on disk MB": round(measure_disk_megabytes(predictor.folder), 2)}
    if usable:
        latency = measure_latency_ms(
            predictor,
            source,
            columns,
            usable,
            warmup=1,
            min_predictions=1,
            max_predictions=REPORT_PREDICTIONS,
            enough_seconds=REPORT_SECONDS,
        )
        cost["latency of one text ms"] = round(latency, 2)
    return cost


def measure_disk_megabytes(folder: Path) -> float:
    """Measure the size in megabytes of the files that prediction needs."""
    return measure_disk_bytes(folder) / 1e6


def measure_disk_bytes(folder: Path) -> int:
    """Measure the size in bytes of the files that prediction needs."""
    has_safetensors = any(folder.glob("*.safetensors"))
    total = 0
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if relative.parts[0] in UNUSED_FOLDERS or path.name in UNUSED_FILES or relative.parts[0].startswith("."):
            continue
        if path.is_file() and not (has_safetensors and path.suffix in DUPLICATE_WEIGHTS):
            total += path.stat().st_size
    return total
