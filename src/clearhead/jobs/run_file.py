"""run.json: the plan, data and machines of a run, decoded strictly so that damage is detected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from clearhead.caller import command, setting
from clearhead.checkpoint.passport import DatasetFingerprint
from clearhead.deprecation import rename_stored_fields
from clearhead.errors import CheckpointError, InputError
from clearhead.files import decode_dataclass, read_json, remove_leftovers, to_printable, write_json
from clearhead.jobs.plan import EARLIER_DEFAULTS, RunPlan
from clearhead.machine.cpu import Machine, list_differences

RUN_FILE = "run.json"
FORMAT = 1
UNKNOWN_MACHINE = (
    "This run does not record its CPU, precision and library versions. If they differ here, the result differs from "
    "that of an uninterrupted run in the last digits."
)


@dataclass(frozen=True, kw_only=True)
class RunData:
    """Data that must be unchanged when a run is resumed."""

    columns: dict[str, str | None] = field(default_factory=dict)
    task: str = ""
    labels: list[str] | None = None
    data: dict[str, DatasetFingerprint] = field(default_factory=dict)  # by part
    tokens: str | None = None  # hash of all token ids


@dataclass(frozen=True, kw_only=True)
class ComputeHistory:
    """The machine on which a run started, and those on which it was resumed."""

    machine: Machine | None = None  # None: written by a version that did not record it
    resumed_on: list[Machine] = field(default_factory=list)

    @property
    def latest(self) -> Machine | None:
        """The last machine."""
        return self.resumed_on[-1] if self.resumed_on else self.machine

    def resume_on(self, machine: Machine) -> ComputeHistory:
        """Add a machine, if it differs from the last one."""
        if not machine.libraries or (self.latest is not None and not list_differences(self.latest, machine)):
            return self
        return replace(self, resumed_on=[*self.resumed_on, machine])

    def with_precision(self, precision: str) -> ComputeHistory:
        """Set the precision, if it was unknown before the model was loaded."""
        if self.latest is None or self.latest.precision:
            return self
        last = replace(self.latest, precision=precision)
        if self.resumed_on:
            return replace(self, resumed_on=[*self.resumed_on[:-1], last])
        return replace(self, machine=last)

    def with_threads(self, threads: int | None) -> ComputeHistory:
        """Set the threads, once the model is loaded; a resumed run keeps its number."""
        if self.machine is None or self.resumed_on:
            return self
        return replace(self, machine=replace(self.machine, threads=threads))

    def notes(self) -> tuple[str, ...]:
        """Notes for the report, if the run used several machines."""
        machines = [machine for machine in (self.machine, *self.resumed_on) if machine is not None]
        if not self.resumed_on or self.machine is None:
            return ()
        changes = "; ".join(", ".join(list_differences(a, b)) for a, b in pairwise(machines))
        return (f"The run was resumed on another machine; it is not reproducible bit for bit: {changes}.",)


@dataclass(frozen=True, kw_only=True)
class FitRecord:
    """Marks finished training, whose weights are in the model folder, with notes on the fit."""

    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The contents of run.json."""

    format: int
    plan: RunPlan
    command: str = ""
    data: RunData = field(default_factory=RunData)
    machine: Machine | None = None
    resumed_on: list[Machine] = field(default_factory=list)
    fitted: FitRecord | None = None

    @property
    def compute_history(self) -> ComputeHistory:
        """The machines used so far."""
        return ComputeHistory(machine=self.machine, resumed_on=self.resumed_on)


def read_run_file(folder: Path) -> RunRecord:
    """Read and check run.json."""
    path = folder / RUN_FILE
    if not path.is_file():
        raise InputError(f"{folder} is not a training run ({RUN_FILE} not found).")
    saved = read_json(path)
    if saved.get("kind") == "pretrain":
        resume_command = command("pretrain", resume=str(folder))
        raise InputError(f"{folder} is a pre-training run; resume it with {resume_command}.")
    if saved.get("format") != FORMAT:
        written = to_printable(saved.get("format"), 40)
        raise CheckpointError(f"{RUN_FILE} has format {written}, expected {FORMAT}; use the version that wrote it.")
    record = decode_dataclass(saved | {"plan": add_earlier_defaults(saved.get("plan"))}, RunRecord, RUN_FILE)
    check_stored_settings(record.plan.check)
    return record


def add_earlier_defaults(plan: Any) -> Any:
    """Add settings to a stored plan that did not exist when it was written, with the behavior of that time."""
    return EARLIER_DEFAULTS | rename_stored_fields(plan, RunPlan) if isinstance(plan, dict) else plan


def check_stored_settings(check: Callable[[], None]) -> None:
    """Report invalid stored settings as a damaged file, not as a mistake of the caller."""
    try:
        check()
    except InputError as error:
        raise CheckpointError(f"{RUN_FILE} is damaged: {error}") from None


def write_run_file(
    folder: Path,
    plan: RunPlan,
    data: Mapping[str, Any],
    command: str,
    history: ComputeHistory,
    fitted: FitRecord | None = None,
) -> None:
    """Write run.json."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be created: {error.strerror or error}.") from None
    record = {"format": FORMAT, "command": command, "plan": asdict(plan), "data": dict(data)}
    fit_record = {} if fitted is None else {"fitted": asdict(fitted)}
    write_json(folder / RUN_FILE, record | asdict(history) | fit_record)


def check_machine(folder: Path, history: ComputeHistory, machine: Machine, *, allowed: bool) -> tuple[str, ...]:
    """Refuse to resume on a machine that changes the result, unless allowed; return notes."""
    if history.latest is None:
        return (UNKNOWN_MACHINE,) if machine.libraries else ()
    changes = list_differences(history.latest, machine)
    if not changes:
        return ()
    described = "; ".join(changes)
    if not allowed:
        raise InputError(
            f"{folder} cannot be reproduced bit for bit on this machine ({described}). Resume it on the original "
            f"machine, or set {setting('allow_different_cpu', True)}."
        )
    return (f"Resumed on another machine ({described}): the result differs in the last digits.",)


def start_run(
    folder: Path, plan: RunPlan, data: Mapping[str, Any], command: str, history: ComputeHistory, *, resume: bool
) -> None:
    """Write run.json of a new run, or check that the data of a resumed run is unchanged."""
    if not resume:
        write_run_file(folder, plan, data, command, history)
        return
    saved = read_run_file(folder)
    saved_data = asdict(saved.data)
    for key, subject in (("data", "rows"), ("labels", "labels"), ("tokens", "tokens"), ("columns", "columns")):
        if (saved_data[key] or None) != (data.get(key) or None):
            raise InputError(f"The {subject} differ from those of {folder}; restore them, or start a new run.")
    remove_leftovers(folder)
    if saved.compute_history != history:  # resumed on another machine
        write_run_file(folder, saved.plan, saved_data, saved.command, history, saved.fitted)
