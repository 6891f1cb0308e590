"""What is said of a run that goes on: the same as when it began, or nothing."""

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
AUTO_SETTINGS = ("head_pooling", "precision", "device")  # the plan of a run has what "auto" became


def check_resumed(
    folder: Path, plan: DataclassInstance, said: Mapping[str, Any], output: str | os.PathLike[str] | None
) -> None:
    """Refuse a run that is finished, and settings, files or a folder that are not those of the run."""
    if (folder / METRICS_FILE).exists():
        raise InputError(f"{folder} is finished: there is nothing to resume. Use its model, or begin another run.")
    if output is not None and not _is_same_path(output, folder):
        raise _changed_setting_error("the folder", folder, output)
    kept = asdict(plan)
    kept |= kept.pop("settings")
    if kept.get("auto_epochs"):
        kept["epochs"] = AUTO  # they are chosen by the rows
    if "minutes" in kept and kept["minutes"] is None:
        kept["minutes"] = read_json(folder / RUN_FILE).get("minutes")  # the plan has the steps that were found for them
    for key, value in said.items():
        name = key.replace("-", "_")
        name = name if name in kept else RENAMED_SETTINGS.get(name, name)
        if value is None or (value == AUTO and name in AUTO_SETTINGS):
            continue
        if name not in kept or name in AUTO_FLAGS:
            raise InputError(f"There is no setting {to_printable(key, 40)!r}.")
        if not is_same_value(name, kept[name], value):
            raise _changed_setting_error(name, kept[name], value)


def _changed_setting_error(name: str, before: object, now: object) -> InputError:
    was = f"{name} was {format_path(before)} and is {format_path(now)}"
    return InputError(f"A resumed run keeps its settings: {was}. Leave it out, or begin another run.")


def is_same_value(name: str, before: object, now: object) -> bool:
    """Whether two values of a setting are the same; paths are, from wherever they are seen."""
    if isinstance(before, list | tuple) and isinstance(now, list | tuple):
        return len(before) == len(now) and all(is_same_value(name, a, b) for a, b in zip(before, now, strict=True))
    if name in PATH_SETTINGS and isinstance(before, str) and isinstance(now, str | os.PathLike):
        return before == now or _is_same_path(before, now)
    alike = type(before) is type(now) or (_is_number(before) and _is_number(now))
    return alike and before == now


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same_path(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def find_repeated_paths(plan: RunPlan, paths: Mapping[str, str | None]) -> dict[str, str]:
    """The files that are named again, to be compared with those of the run.

    One that is no longer where it was may have moved, and one for rows that came as Python values may hold them: their
    rows tell it.
    """
    kept = {part: getattr(plan, part) for part in paths}
    values = plan.train is None
    known = {part for part, path in kept.items() if (not values if path is None else Path(path).exists())}
    return {part: path for part, path in paths.items() if path is not None and part in known}
