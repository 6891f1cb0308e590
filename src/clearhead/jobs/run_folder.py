"""The files of a run folder: their names, the held-out rows, and whether a run can start there."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from clearhead.caller import setting
from clearhead.errors import InputError
from clearhead.files import is_occupied, read_json
from clearhead.jobs.run_file import RUN_FILE

METRICS_FILE = "metrics.json"
REPORT_FILE = "report.html"
SPLIT_FILE = "split.json"
MAX_SPLIT_BYTES = 1 << 30


def read_split(folder: Path, part: str) -> frozenset[int]:
    """Read the numbers of the rows that a run held out."""
    if not (folder / SPLIT_FILE).is_file():
        raise InputError(f"{folder} does not record its held-out rows ({SPLIT_FILE} not found).")
    parts = read_json(folder / SPLIT_FILE, max_bytes=MAX_SPLIT_BYTES).get("parts")
    row_numbers = parts.get(part) if isinstance(parts, dict) else None
    if not isinstance(row_numbers, list) or not all(isinstance(number, int) for number in row_numbers):
        part_names = ", ".join(parts) if isinstance(parts, dict) and parts else "no part"
        raise InputError(f"{folder} held out {part_names} of its training file, not {part!r}.")
    return frozenset(row_numbers)


def remove_unstarted_run(folder: Path, *, existed: bool, patterns: Iterable[str] = ()) -> None:
    """Remove the files of a run that failed to start, so that its folder can be used again.

    `patterns` match its files and folders other than run.json.
    """
    for path in (path for pattern in patterns for path in folder.glob(pattern)):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    (folder / RUN_FILE).unlink(missing_ok=True)
    if not existed:
        with suppress(OSError):  # the folder has other files
            folder.rmdir()


def check_run_folder(folder: Path) -> None:
    """Refuse a folder in which a run cannot start."""
    occupied = is_occupied(folder)
    if occupied and (folder / RUN_FILE).exists() and not (folder / METRICS_FILE).exists():
        resume_setting = setting("resume", str(folder))
        raise InputError(
            f"{folder} contains an unfinished run; resume it with {resume_setting}, or name another folder."
        )
    if occupied:
        raise InputError(
            f"Output folder {folder} already exists and is not empty; name another one with {setting('output')}."
        )
