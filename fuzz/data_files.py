"""Generate a data file from a number: a valid file, a few mutations, and a path. The number determines everything."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path

from fuzz.case import FuzzCase
from fuzz.data_mutate import (
    BYTES,
    CELLS,
    ENDINGS,
    JSON_ONLY,
    ODD_NAMES,
    OPTIONS,
    damage_folder,
    damage_gzip,
    damage_parquet,
)
from fuzz.data_seeds import WRITER_WEIGHTS, WRITERS, File, Rng, compress_file, make_table
from fuzz.data_tasks import TASK_WRITERS

KEEP_COUNT = ("same rows", "missing ids", "many labels")  # mutations that keep the row count of delimited files


def draw_file(seed: int, number: int) -> tuple[str, File]:
    """Draw the writer and the file of a number."""
    rng = random.Random(f"data:{seed}:{number}")
    writer = rng.choices([*WRITERS, *TASK_WRITERS], [*WRITER_WEIGHTS, *[2] * len(TASK_WRITERS)])[0]
    file = _make_file(writer, rng, mutated=rng.random() > 0.04)
    return writer, file


def _make_file(writer: str, rng: Rng, *, mutated: bool) -> File:
    table = make_table(rng)
    steps = rng.choices(("cells", "bytes", "around"), (4, 5, 2), k=rng.choice((1, 1, 1, 2, 3))) if mutated else []
    for _ in range(steps.count("cells")):
        table.kinds.append(kind := rng.choice(list(CELLS)))
        CELLS[kind](table, rng)
    file = (WRITERS | TASK_WRITERS)[writer](table, rng)
    file.kinds = table.kinds
    if table.kinds:
        file.cells = None
    if writer in ("comma", "semicolon", "tab", "pipe") and not set(table.kinds) <= set(KEEP_COUNT):
        file.rows = None
    for _ in range(steps.count("bytes")):
        file.cells = None
        if file.folder is None:
            _mutate_bytes(file, writer, rng)
        else:
            damage_folder(file, rng)
    if file.folder is None:
        _mutate_container(file, rng, steps.count("around"))
    return file


def _mutate_bytes(file: File, writer: str, rng: Rng) -> None:
    file.rows = None
    if writer == "parquet" and rng.random() < 0.7:
        file.kinds.append("Parquet")
        file.data = damage_parquet(file.data, rng)
        return
    if rng.random() < 0.1:
        file.kinds.append("splice")
        other_data = _make_file(rng.choice(list(WRITERS)[:-1]), rng, mutated=False).data
        end, start = rng.randrange(len(file.data) + 1), rng.choice((0, rng.randrange(len(other_data) + 1)))
        file.data = file.data[:end] + other_data[start:]
        return
    applicable = [name for name in BYTES if writer.startswith("json") or name not in JSON_ONLY]
    file.kinds.append(kind := rng.choice(applicable))
    file.data = BYTES[kind](file.data, rng)


def _mutate_container(file: File, rng: Rng, count: int) -> None:
    """Mutate everything but the content: gzip, the file name, and the options of open_source."""
    kinds = rng.sample(("gzip", "ending", "name", "options"), count) if count else []
    if "gzip" in kinds:
        file.data = damage_gzip(file.data, rng)
        file.name += ".gz"
        file.cells = file.rows = None
    elif rng.random() < 0.25:
        compress_file(file)
    if "ending" in kinds:
        file.name = "data" + rng.choice(ENDINGS)
    if "name" in kinds:
        file.name = rng.choice(ODD_NAMES)
    if "options" in kinds:
        file.options = rng.choice(OPTIONS)
    if {"ending", "name", "options"} & set(kinds):
        file.cells = file.rows = None
    file.kinds += kinds


def build_case(seed: int, number: int, base: Path) -> tuple[FuzzCase, File, Path]:
    """Write the file of a number into base/case."""
    writer, file = draw_file(seed, number)
    folder = base / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = folder / file.name
    if file.folder is None:
        path.write_bytes(file.data)
    else:
        path.mkdir()
        for name, data in file.folder.items():
            inner_path = path / name.rstrip("/")
            with suppress(FileExistsError, NotADirectoryError, IsADirectoryError):  # mutated names can collide
                (inner_path if name.endswith("/") else inner_path.parent).mkdir(parents=True, exist_ok=True)
                if data is None:
                    os.mkfifo(inner_path)
                elif not name.endswith("/"):
                    inner_path.write_bytes(data)
    return FuzzCase(number=number, seed=writer, file=file.name, kind=" + ".join(file.kinds) or "nothing"), file, path
