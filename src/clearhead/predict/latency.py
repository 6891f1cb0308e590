"""What a trained folder costs in use: the time of one text, and its size on disk."""

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

WARMUP_PREDICTIONS = 3  # predictions before the clock runs
MIN_PREDICTIONS, MAX_PREDICTIONS = 20, 100  # predictions that are timed
ENOUGH_SECONDS = 3.0  # seconds after which the least will do
REPORT_PREDICTIONS, REPORT_SECONDS = 20, 1.0  # texts and seconds that a report has for it
UNUSED_FILES = {METRICS_FILE, REPORT_FILE, SPLIT_FILE, "run.json", "log.jsonl"}
UNUSED_FOLDERS = {STATE_FOLDER, "seeds", "tensorboard", "onnx", "openvino"}  # the last two are other people's exports
DUPLICATE_WEIGHTS = {".bin", ".h5", ".ot", ".msgpack", ".ckpt"}  # the same weights in other forms, beside safetensors


def measure_latency_ms(
    predictor: Predictor,
    source: Source,
    columns: Columns,
    rows: Sequence[Row],
    *,
    warm: int = WARMUP_PREDICTIONS,
    least: int = MIN_PREDICTIONS,
    most: int = MAX_PREDICTIONS,
    enough: float = ENOUGH_SECONDS,
) -> float:
    """Milliseconds from a row to its answer, one row at a time: the median over real rows, which must be usable."""
    known = replace(columns, label=None, split=None)

    def alone(row: Row) -> Source:
        return replace(source, open=lambda: iter([row]))

    each = [alone(row) for row in rows]

    def timed(number: int) -> float:
        begun = time.perf_counter()
        list(answer_rows(predictor, each[number % len(each)], known, skip_bad_rows=True))
        return time.perf_counter() - begun

    for number in range(warm):
        timed(number)
    spent: list[float] = []
    while len(spent) < least or (len(spent) < most and sum(spent) < enough):
        spent.append(timed(len(spent)))
    return 1000 * median(spent)


def measure_serving_cost(predictor: Predictor, source: Source, columns: Columns) -> dict[str, float]:
    """What the model takes to be used, found out in about a second: the time of one text, and its room on disk."""
    known, check = replace(columns, label=None, split=None), predictor.task.rows.check_row
    rows = [row for row in source.sample(2 * REPORT_PREDICTIONS) if isinstance(row, Row)]
    good = [row for row in rows if isinstance(check(row, known, predictor.space), TextRow)][:REPORT_PREDICTIONS]
    made = {"size on disk MB": round(measure_disk_megabytes(predictor.folder), 2)}
    if good:
        taken = measure_latency_ms(
            predictor, source, columns, good, warm=1, least=1, most=REPORT_PREDICTIONS, enough=REPORT_SECONDS
        )
        made["latency of one text ms"] = round(taken, 2)
    return made


def measure_disk_megabytes(folder: Path) -> float:
    """The files of a run that are needed to predict with it."""
    return measure_disk_bytes(folder) / 1e6


def measure_disk_bytes(folder: Path) -> int:
    """The bytes on disk of the files that are needed to predict with a folder."""
    safe = any(folder.glob("*.safetensors"))
    total = 0
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if inside.parts[0] in UNUSED_FOLDERS or path.name in UNUSED_FILES or inside.parts[0].startswith("."):
            continue
        if path.is_file() and not (safe and path.suffix in DUPLICATE_WEIGHTS):
            total += path.stat().st_size
    return total
