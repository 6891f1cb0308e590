"""Restarting a command: whether a folder contains its interrupted run, or a run that is still active."""

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
    """Whether a folder contains an interrupted run of the same command."""
    if not command or not (folder / RUN_FILE).is_file() or (folder / METRICS_FILE).exists():
        return False
    try:
        saved = read_json(folder / RUN_FILE)
    except ClearheadError:
        return False
    saved_plan = saved.get("plan")
    if saved.get("command") != command or not isinstance(saved_plan, dict):
        return False
    return _settings_match(asdict(plan), rename_stored_fields(saved_plan, type(plan)), asdict(type(plan)()))


def _settings_match(requested: Mapping[str, Any], saved: Mapping[str, Any], defaults: Mapping[str, Any]) -> bool:
    """Whether requested settings equal the saved ones; open settings were chosen when the run started."""
    for key, value in requested.items():
        if isinstance(value, dict):
            if not isinstance(saved.get(key), dict) or not _settings_match(value, saved[key], defaults[key]):
                return False
        elif value not in (saved.get(key), defaults[key]) and not (key == "minutes" and saved.get("max_steps")):
            return False
    return True


def is_available(folder: Path, plan: DataclassInstance, command: str) -> bool:
    """Whether a run can start or resume in a folder."""
    return not is_occupied(folder) or (is_same_run(folder, plan, command) and not is_locked(folder))


def is_locked(folder: Path) -> bool:
    """Whether another process has locked a folder."""
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
    """Lock the folder of a run while it is active, as soon as it exists; a second process is refused."""
    outer_events, handles, keys = events or NO_EVENTS, [], []

    def lock(path: Path) -> None:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError):
            return  # other code reports the problem
        handles.append(handle)
        status = os.fstat(handle)
        if (key := (status.st_dev, status.st_ino)) in _locked_folders:
            return
        if try_lock(handle, path.resolve()) is False and status.st_uid == os.geteuid():
            raise InputError(f"{path} is in use by another process; wait for it, or name another folder.")
        _locked_folders.add(key)
        keys.append(key)

    def started(path: Path) -> None:
        lock(path)
        outer_events.started(path)

    try:
        if folder is not None:
            lock(Path(folder))
        yield replace(outer_events, started=started)
    finally:
        _locked_folders.difference_update(keys)
        for handle in handles:
            with suppress(OSError):
                os.close(handle)
