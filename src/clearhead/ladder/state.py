"""The state of a ladder on disk: plans and finished results, to be reused by the same call."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

from clearhead.caller import setting
from clearhead.deprecation import rename_stored_fields
from clearhead.errors import CheckpointError, InputError
from clearhead.files import decode_dataclass, is_occupied, read_json, to_printable, write_json
from clearhead.jobs.plan import EARLIER_DEFAULTS, NETWORK_METHODS, RunPlan
from clearhead.jobs.prepare import PreparedData
from clearhead.jobs.resume import PATH_SETTINGS, is_same_value
from clearhead.jobs.run_file import RUN_FILE, read_run_file
from clearhead.jobs.run_folder import METRICS_FILE, SPLIT_FILE
from clearhead.ladder.methods import METHODS, MethodResult
from clearhead.training.settings import MAX_EPOCHS

LADDER_FILE = "ladder.json"
FORMAT = 1
MAX_SPLIT_BYTES = 1 << 30


class JsonWritable(Protocol):
    """An object with a JSON representation."""

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, kw_only=True)
class LadderState:
    """Plans and finished results of a ladder, stored between calls."""

    plans: Mapping[str, Any]  # plan of each method, as JSON values
    finished: Mapping[str, MethodResult] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, plans: Mapping[str, RunPlan]) -> LadderState:
        """Read the state of a folder, if any; raise InputError if it has other settings."""
        requested = {method: json.loads(json.dumps(asdict(plan))) for method, plan in plans.items()}
        if not (folder / LADDER_FILE).is_file():
            if is_occupied(folder):
                output_setting = setting("output", "FOLDER")
                raise InputError(
                    f"{folder} already exists and is not empty; choose another folder with {output_setting}."
                )
            return cls(plans=requested)
        saved = read_json(folder / LADDER_FILE)
        stored_plans, finished = saved.get("asked"), saved.get("finished")
        if saved.get("format") != FORMAT or not isinstance(stored_plans, dict) or not isinstance(finished, dict):
            raise CheckpointError(f"{folder / LADDER_FILE} is damaged or was written by another version of clearhead.")
        stored_plans = {
            method: _keep_equal_paths(_add_defaults(plan), requested.get(method))
            for method, plan in stored_plans.items()
        }
        for method in requested.keys() & stored_plans.keys():
            if stored_plans[method] != requested[method]:
                difference = _describe_first_difference(stored_plans[method], requested[method])
                raise InputError(
                    f"{folder} contains a ladder with other settings ({difference}); "
                    f"choose another folder with {setting('output', 'FOLDER')}."
                )
        results = {method: _decode_result(method, result) for method, result in finished.items() if method in METHODS}
        complete = {
            method: result
            for method, result in results.items()
            if (folder / result.folder_name / METRICS_FILE).is_file()
        }
        return cls(plans={**stored_plans, **requested}, finished=complete)

    def check_rows(self, folder: Path, prepared: PreparedData) -> None:
        """Raise InputError if a finished method was trained on other rows."""
        for result in self.finished.values():
            check_fingerprints(folder / result.folder_name, prepared)

    def write(self, folder: Path, ladder: JsonWritable | None = None) -> None:
        """Write the state, with the comparison once it exists."""
        finished = {method: asdict(result) for method, result in self.finished.items()}
        ladder_fields = {} if ladder is None else ladder.to_json()
        write_json(
            folder / LADDER_FILE, {"format": FORMAT, **ladder_fields, "asked": dict(self.plans), "finished": finished}
        )


def find_shortened_runs(folder: Path, method: str) -> list[int]:
    """Return the sorted numbers of epochs of existing runs of a method with reduced epochs."""
    paths = [path for path in folder.glob(f"{method}-*-epochs") if (path / RUN_FILE).is_file()]
    matches = (re.fullmatch(r"-([1-9][0-9]{0,5})-epochs", path.name.removeprefix(method)) for path in paths)
    return sorted(int(match[1]) for match in matches if match is not None)


def _decode_result(method: str, saved: Any) -> MethodResult:
    """Decode and validate a finished result."""
    result = decode_dataclass(saved, MethodResult, LADDER_FILE)
    values = (
        result.value,
        result.low,
        result.high,
        result.training_seconds,
        result.latency_ms,
        result.size_mb,
        result.needs_seconds,
    )
    if not all(value is None or isfinite(value) for value in values):
        raise CheckpointError(
            f"{LADDER_FILE} is damaged: expected finite numbers for {to_printable(result.method, 40)}."
        )
    epochs = (result.epochs, result.planned_epochs)
    if result.method != method or not (
        epochs == (None, None) or all(1 <= (count or 0) <= MAX_EPOCHS for count in epochs)
    ):
        raise CheckpointError(f"{LADDER_FILE} is damaged: expected a result of {method}.")
    return result


def _add_defaults(plan: Any) -> Any:
    """Complete a stored plan with defaults of settings that later versions added."""
    if not isinstance(plan, dict):
        return plan
    defaults = json.loads(json.dumps(asdict(RunPlan(auto_method=False))))  # the method is always explicit
    plan = rename_stored_fields(plan, RunPlan)
    stored_settings = plan.get("settings")
    if plan.get("method") in NETWORK_METHODS:
        defaults |= EARLIER_DEFAULTS
    completed = {**defaults, **plan}
    return (
        {**completed, "settings": {**defaults["settings"], **stored_settings}}
        if isinstance(stored_settings, dict)
        else completed
    )


def _keep_equal_paths(before: Any, now: Mapping[str, Any] | None) -> Any:
    """Return a stored plan in which equivalent paths are spelled as in the current plan."""
    if now is None or not isinstance(before, dict):
        return before
    equal_paths = {
        key: now[key]
        for key in PATH_SETTINGS
        if key in before and key in now and is_same_value(key, before[key], now[key])
    }
    return before | equal_paths


def _describe_first_difference(before: Any, now: Mapping[str, Any]) -> str:
    """Describe the first setting that differs."""
    if not isinstance(before, dict):
        return "the stored plan is damaged"
    for key in now:
        if before.get(key) != now[key]:
            if isinstance(now[key], dict):
                return _describe_first_difference(before.get(key), now[key])
            return f"{key} was {to_printable(before.get(key), 60)}, got {to_printable(now[key], 60)}"
    return "some settings are missing"


def check_fingerprints(folder: Path, prepared: PreparedData) -> None:
    """Raise InputError unless a run was trained and evaluated on exactly these prepared rows."""
    stored_fingerprints = asdict(read_run_file(folder).data)["data"]
    fingerprints = {name: asdict(part.fingerprint()) for name, part in prepared.parts.items()}
    stored_rows = read_json(folder / SPLIT_FILE, max_bytes=MAX_SPLIT_BYTES).get("parts")
    train_source = prepared.parts["train"].source
    held_out_rows = {
        name: part.row_numbers.tolist()
        for name, part in prepared.parts.items()
        if name != "train" and part.source is train_source
    }
    if stored_fingerprints != fingerprints or stored_rows != held_out_rows:
        output_setting = setting("output", "FOLDER")
        raise InputError(
            f"{folder} was trained or measured on other rows; choose another folder with {output_setting}."
        )
