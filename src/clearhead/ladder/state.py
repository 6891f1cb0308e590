"""What a ladder keeps on disk: what was asked for, which rungs are done, and whether that is still the same."""

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
    """Anything that can be written down."""

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, kw_only=True)
class LadderState:
    """The state of a ladder between two calls."""

    plans: Mapping[str, Any]  # the plan of each rung, as plain values
    finished: Mapping[str, MethodResult] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, plans: Mapping[str, RunPlan]) -> LadderState:
        """What is there already, if it was made with the same settings; nothing, if nothing is there."""
        asked = {method: json.loads(json.dumps(asdict(plan))) for method, plan in plans.items()}
        if not (folder / LADDER_FILE).is_file():
            if is_occupied(folder):
                other = setting("output", "FOLDER")
                raise InputError(f"{folder} is there already and not empty; name another folder with {other}.")
            return cls(plans=asked)
        saved = read_json(folder / LADDER_FILE)
        before, finished = saved.get("asked"), saved.get("finished")
        if saved.get("format") != FORMAT or not isinstance(before, dict) or not isinstance(finished, dict):
            raise CheckpointError(f"{folder / LADDER_FILE} is damaged or of another version of clearhead.")
        before = {method: _keep_equal_paths(_add_defaults(plan), asked.get(method)) for method, plan in before.items()}
        for method in asked.keys() & before.keys():
            if before[method] != asked[method]:
                difference = _describe_first_difference(before[method], asked[method])
                raise InputError(
                    f"{folder} holds a ladder with other settings ({difference}); "
                    f"name another folder with {setting('output', 'FOLDER')}."
                )
        rungs = {method: _decode_result(method, rung) for method, rung in finished.items() if method in METHODS}
        done = {method: rung for method, rung in rungs.items() if (folder / rung.folder_name / METRICS_FILE).is_file()}
        return cls(plans={**before, **asked}, finished=done)

    def check_rows(self, folder: Path, prepared: PreparedData) -> None:
        """Refuse to compare with what was trained on other rows."""
        for rung in self.finished.values():
            check_fingerprints(folder / rung.folder_name, prepared)

    def write(self, folder: Path, made: JsonWritable | None = None) -> None:
        """Keep it, with the whole ladder once there is one."""
        finished = {method: asdict(rung) for method, rung in self.finished.items()}
        told = {} if made is None else made.to_json()
        write_json(folder / LADDER_FILE, {"format": FORMAT, **told, "asked": dict(self.plans), "finished": finished})


def find_shortened_runs(folder: Path, method: str) -> list[int]:
    """How many epochs the shortened runs of a method have that were begun, in order."""
    paths = [path for path in folder.glob(f"{method}-*-epochs") if (path / RUN_FILE).is_file()]
    names = (re.fullmatch(r"-([1-9][0-9]{0,5})-epochs", path.name.removeprefix(method)) for path in paths)
    return sorted(int(name[1]) for name in names if name is not None)


def _decode_result(method: str, saved: Any) -> MethodResult:
    """A rung that is finished, with numbers that can be."""
    rung = decode_dataclass(saved, MethodResult, LADDER_FILE)
    values = (rung.value, rung.low, rung.high, rung.training_seconds, rung.latency_ms, rung.size_mb, rung.needs_seconds)
    if not all(value is None or isfinite(value) for value in values):
        raise CheckpointError(f"{LADDER_FILE} is damaged: expected finite numbers of {to_printable(rung.method, 40)}.")
    epochs = (rung.epochs, rung.planned_epochs)
    if rung.method != method or not (epochs == (None, None) or all(1 <= (n or 0) <= MAX_EPOCHS for n in epochs)):
        raise CheckpointError(f"{LADDER_FILE} is damaged: expected a result of {method}.")
    return rung


def _add_defaults(plan: Any) -> Any:
    """A plan as it was written, with what later versions can choose as they leave it."""
    if not isinstance(plan, dict):
        return plan
    usual = json.loads(json.dumps(asdict(RunPlan(auto_method=False))))  # a rung names its method
    plan = rename_stored_fields(plan, RunPlan)
    own = plan.get("settings")
    if plan.get("method") in NETWORK_METHODS:
        usual |= EARLIER_DEFAULTS
    made = {**usual, **plan}
    return {**made, "settings": {**usual["settings"], **own}} if isinstance(own, dict) else made


def _keep_equal_paths(before: Any, now: Mapping[str, Any] | None) -> Any:
    """A plan as it was written, with the paths that are the same as they are spelled now."""
    if now is None or not isinstance(before, dict):
        return before
    same = {
        key: now[key]
        for key in PATH_SETTINGS
        if key in before and key in now and is_same_value(key, before[key], now[key])
    }
    return before | same


def _describe_first_difference(before: Any, now: Mapping[str, Any]) -> str:
    """The first setting that differs."""
    if not isinstance(before, dict):
        return "it is damaged"
    for key in now:
        if before.get(key) != now[key]:
            if isinstance(now[key], dict):
                return _describe_first_difference(before.get(key), now[key])
            return f"{key} was {to_printable(before.get(key), 60)}, got {to_printable(now[key], 60)}"
    return "some are gone"


def check_fingerprints(folder: Path, prepared: PreparedData) -> None:
    """See that a run was trained, chosen and measured on exactly the rows that are prepared here."""
    data = asdict(read_run_file(folder).data)["data"]
    marks = {name: asdict(part.fingerprint()) for name, part in prepared.parts.items()}
    held = read_json(folder / SPLIT_FILE, max_bytes=MAX_SPLIT_BYTES).get("parts")
    train = prepared.parts["train"].source
    own = {
        name: part.row_numbers.tolist()
        for name, part in prepared.parts.items()
        if name != "train" and part.source is train
    }
    if data != marks or held != own:
        other = setting("output", "FOLDER")
        raise InputError(f"{folder} was trained or measured on other rows; name another folder with {other}.")
