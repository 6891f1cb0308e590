"""The files of a run's folder: what is in it, which rows were held out, and whether a run can begin there."""

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
    """The numbers of the rows that a run held out."""
    if not (folder / SPLIT_FILE).is_file():
        raise InputError(f"{folder} does not say which rows were held out: it has no {SPLIT_FILE}.")
    parts = read_json(folder / SPLIT_FILE, max_bytes=MAX_SPLIT_BYTES).get("parts")
    numbers = parts.get(part) if isinstance(parts, dict) else None
    if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
        named = ", ".join(parts) if isinstance(parts, dict) and parts else "no part"
        raise InputError(f"{folder} held out {named} of its training file, and not {part!r}.")
    return frozenset(numbers)


def remove_unstarted_run(folder: Path, *, existed: bool, made: Iterable[str] = ()) -> None:
    """Remove what a run that cannot begin has written, so that it can be called again with other settings.

    `made` are patterns of files and folders that it made beside its run.json.
    """
    for path in (path for pattern in made for path in folder.glob(pattern)):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    (folder / RUN_FILE).unlink(missing_ok=True)
    if not existed:
        with suppress(OSError):  # something else is in it
            folder.rmdir()


def check_run_folder(folder: Path) -> None:
    """One sentence where a run cannot begin in a folder."""
    taken = is_occupied(folder)
    if taken and (folder / RUN_FILE).exists() and not (folder / METRICS_FILE).exists():
        resumed = setting("resume", str(folder))
        raise InputError(f"{folder} holds a run that is not finished: continue it with {resumed}, or name another.")
    if taken:
        raise InputError(f"{folder} is there already and not empty; name another folder with {setting('output')}.")
