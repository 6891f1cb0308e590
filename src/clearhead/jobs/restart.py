"""The same command once more: whether a folder holds its own run that was killed, or one that still goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.deprecation import rename_stored_fields
from clearhead.errors import ClearheadError, InputError
from clearhead.files import is_occupied, read_json, try_lock
from clearhead.jobs.events import NO_EVENTS, RunEvents
from clearhead.jobs.run_file import RUN_FILE
from clearhead.jobs.run_folder import METRICS_FILE

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_locked_folders: set[tuple[int, int]] = set()  # folders that this process has locked


def is_same_run(folder: Path, plan: DataclassInstance, command: str) -> bool:
    """Whether the very same command was begun in a folder and killed there, so that it goes on."""
    if not command or not (folder / RUN_FILE).is_file() or (folder / METRICS_FILE).exists():
        return False
    try:
        saved = read_json(folder / RUN_FILE)
    except ClearheadError:
        return False
    before = saved.get("plan")
    if saved.get("command") != command or not isinstance(before, dict):
        return False
    return _settings_match(asdict(plan), rename_stored_fields(before, type(plan)), asdict(type(plan)()))


def _settings_match(asked: Mapping[str, Any], before: Mapping[str, Any], usual: Mapping[str, Any]) -> bool:
    """Whether settings are what was asked for before; those that were left open were chosen when the run began."""
    for key, value in asked.items():
        if isinstance(value, dict):
            if not isinstance(before.get(key), dict) or not _settings_match(value, before[key], usual[key]):
                return False
        elif value not in (before.get(key), usual[key]) and not (key == "minutes" and before.get("max_steps")):
            return False
    return True


def is_available(folder: Path, plan: DataclassInstance, command: str) -> bool:
    """Whether a run can begin in a folder, or go on there."""
    return not is_occupied(folder) or (is_same_run(folder, plan, command) and not is_locked(folder))


def is_locked(folder: Path) -> bool:
    """Whether another process is at work in a folder."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    try:
        return try_lock(handle, folder.resolve()) is False
    finally:
        os.close(handle)


@contextmanager
def lock_run_folder(folder: str | os.PathLike[str] | None, events: RunEvents | None) -> Iterator[RunEvents]:
    """Lock the folder of a run as long as it goes, from when it is there; a second process is refused."""
    outer, handles, keys = events or NO_EVENTS, [], []

    def hold(place: Path) -> None:
        try:
            handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError):
            return  # what is wrong with it is said elsewhere
        handles.append(handle)
        status = os.fstat(handle)
        if (key := (status.st_dev, status.st_ino)) in _locked_folders:
            return
        if try_lock(handle, place.resolve()) is False and status.st_uid == os.geteuid():
            raise InputError(f"{place} is in use by another process; wait for it, or name another folder.")
        _locked_folders.add(key)
        keys.append(key)

    def started(place: Path) -> None:
        hold(place)
        outer.started(place)

    try:
        if folder is not None:
            hold(Path(folder))
        yield replace(outer, started=started)
    finally:
        _locked_folders.difference_update(keys)
        for handle in handles:
            with suppress(OSError):
                os.close(handle)
