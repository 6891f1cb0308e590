"""Checks of the settings that are repeated when a run is resumed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError
from clearhead.files import format_path, read_json, to_printable
from clearhead.jobs.plan import AUTO_FLAGS, RENAMED_SETTINGS, RunPlan
from clearhead.jobs.run_file import RUN_FILE
from clearhead.jobs.run_folder import METRICS_FILE

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PATH_SETTINGS = ("train", "dev", "test", "model", "tokenizer", "files")
AUTO = "auto"
AUTO_SETTINGS = ("head_pooling", "precision", "device")  # the stored plan contains the resolved values


def check_resumed(
    folder: Path, plan: DataclassInstance, requested: Mapping[str, Any], output: str | os.PathLike[str] | None
) -> None:
    """Refuse finished runs, and settings, files or a folder that differ from those of the run."""
    if (folder / METRICS_FILE).exists():
        raise InputError(f"{folder} is a finished run and cannot be resumed. Use its model, or start a new run.")
    if output is not None and not _is_same_path(output, folder):
        raise _changed_setting_error("the folder", folder, output)
    stored = asdict(plan)
    stored |= stored.pop("settings")
    if stored.get("auto_epochs"):
        stored["epochs"] = AUTO  # chosen from the dataset
    if "minutes" in stored and stored["minutes"] is None:
        # the plan stores the resulting number of steps instead
        stored["minutes"] = read_json(folder / RUN_FILE).get("minutes")
    for key, value in requested.items():
        name = key.replace("-", "_")
        name = name if name in stored else RENAMED_SETTINGS.get(name, name)
        if value is None or (value == AUTO and name in AUTO_SETTINGS):
            continue
        if name not in stored or name in AUTO_FLAGS:
            raise InputError(f"Unknown setting {to_printable(key, 40)!r}.")
        if not is_same_value(name, stored[name], value):
            raise _changed_setting_error(name, stored[name], value)


def _changed_setting_error(name: str, stored: object, requested: object) -> InputError:
    change = f"{name} was {format_path(stored)}, got {format_path(requested)}"
    return InputError(f"A resumed run keeps its settings: {change}. Omit it, or start a new run.")


def is_same_value(name: str, stored: object, requested: object) -> bool:
    """Whether two values of a setting are equal; paths are compared after resolving links."""
    if isinstance(stored, list | tuple) and isinstance(requested, list | tuple):
        return len(stored) == len(requested) and all(
            is_same_value(name, a, b) for a, b in zip(stored, requested, strict=True)
        )
    if name in PATH_SETTINGS and isinstance(stored, str) and isinstance(requested, str | os.PathLike):
        return stored == requested or _is_same_path(stored, requested)
    is_same_type = type(stored) is type(requested) or (_is_number(stored) and _is_number(requested))
    return is_same_type and stored == requested


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same_path(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def find_repeated_paths(plan: RunPlan, paths: Mapping[str, str | None]) -> dict[str, str]:
    """Select the paths to compare with those of the run.

    A file that no longer exists may have moved, and a file may contain rows that were Python values before; these are
    compared by content.
    """
    stored_paths = {part: getattr(plan, part) for part in paths}
    has_python_rows = plan.train is None
    comparable = {
        part for part, path in stored_paths.items() if (not has_python_rows if path is None else Path(path).exists())
    }
    return {part: path for part, path in paths.items() if path is not None and part in comparable}
