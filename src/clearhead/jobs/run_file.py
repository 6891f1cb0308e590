"""run.json: what a run was begun with and where it computed, decoded strictly, so that damage is named."""

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
from clearhead.files import decode_dataclass, read_json, remove_leftovers, write_json
from clearhead.jobs.plan import EARLIER_DEFAULTS, RunPlan
from clearhead.machine.cpu import Machine, differences

RUN_FILE = "run.json"
FORMAT = 1
UNKNOWN_MACHINE = (
    "This run does not record the CPU, precision and library versions that it began with; if they differ here, its "
    "result differs in the last digits from that of an uninterrupted run."
)


@dataclass(frozen=True, kw_only=True)
class RunData:
    """What a resumed run must find again."""

    columns: dict[str, str | None] = field(default_factory=dict)
    task: str = ""
    labels: list[str] | None = None
    data: dict[str, DatasetFingerprint] = field(default_factory=dict)  # by part
    tokens: str | None = None  # a hash of every token id


@dataclass(frozen=True, kw_only=True)
class ComputeHistory:
    """The machine that a run began on, and those that it was resumed on and that differ from the one before."""

    machine: Machine | None = None  # None: of a version that did not record it
    resumed_on: list[Machine] = field(default_factory=list)

    @property
    def latest(self) -> Machine | None:
        """The machine that computed the last steps."""
        return self.resumed_on[-1] if self.resumed_on else self.machine

    def resume_on(self, now: Machine) -> ComputeHistory:
        """The same after it was resumed here."""
        if not now.libraries or (self.latest is not None and not differences(self.latest, now)):
            return self
        return replace(self, resumed_on=[*self.resumed_on, now])

    def set_precision(self, precision: str) -> ComputeHistory:
        """The same where only the loaded model says what the precision is."""
        if self.latest is None or self.latest.precision:
            return self
        last = replace(self.latest, precision=precision)
        if self.resumed_on:
            return replace(self, resumed_on=[*self.resumed_on[:-1], last])
        return replace(self, machine=last)

    def set_threads(self, threads: int | None) -> ComputeHistory:
        """The same where only the loaded model says how many threads it keeps busy; a resumed run keeps its number."""
        if self.machine is None or self.resumed_on:
            return self
        return replace(self, machine=replace(self.machine, threads=threads))

    def notes(self) -> tuple[str, ...]:
        """A sentence for the report where more than one machine computed."""
        known = [one for one in (self.machine, *self.resumed_on) if one is not None]
        if not self.resumed_on or self.machine is None:
            return ()
        changed = "; ".join(", ".join(differences(a, b)) for a, b in pairwise(known))
        return (f"The run was resumed on another machine, so that its bits cannot be reproduced: {changed}.",)


@dataclass(frozen=True, kw_only=True)
class FitRecord:
    """Training is over, and the model folder has its weights; with what there was to say about it."""

    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run.json of training."""

    format: int
    plan: RunPlan
    command: str = ""
    data: RunData = field(default_factory=RunData)
    machine: Machine | None = None
    resumed_on: list[Machine] = field(default_factory=list)
    fitted: FitRecord | None = None

    @property
    def compute_history(self) -> ComputeHistory:
        """Where it computed so far."""
        return ComputeHistory(machine=self.machine, resumed_on=self.resumed_on)


def read_run_file(folder: Path) -> RunRecord:
    """The run.json of a run that was begun, with every value checked."""
    path = folder / RUN_FILE
    if not path.is_file():
        raise InputError(f"{folder} is no run: it has no {RUN_FILE}.")
    saved = read_json(path)
    if saved.get("kind") == "pretrain":
        again = command("pretrain", resume=str(folder))
        raise InputError(f"{folder} is a run of pre-training; go on with {again}.")
    if saved.get("format") != FORMAT:
        raise CheckpointError(f"{RUN_FILE} is of another version of clearhead.")
    made = decode_dataclass(saved | {"plan": add_earlier_defaults(saved.get("plan"))}, RunRecord, RUN_FILE)
    check_stored_settings(made.plan.check)
    return made


def add_earlier_defaults(plan: Any) -> Any:
    """A plan as it was written, with what could not be chosen at that time as it was then."""
    return EARLIER_DEFAULTS | rename_stored_fields(plan, RunPlan) if isinstance(plan, dict) else plan


def check_stored_settings(check: Callable[[], None]) -> None:
    """Settings that are out of range in a file are the file's damage, not the caller's mistake."""
    try:
        check()
    except InputError as error:
        raise CheckpointError(f"{RUN_FILE} is damaged: {error}") from None


def write_run_file(
    folder: Path,
    plan: RunPlan,
    data: Mapping[str, Any],
    command: str,
    computed: ComputeHistory,
    fitted: FitRecord | None = None,
) -> None:
    """Write down what is being trained, and where."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror or error}.") from None
    saved = {"format": FORMAT, "command": command, "plan": asdict(plan), "data": dict(data)}
    over = {} if fitted is None else {"fitted": asdict(fitted)}
    write_json(folder / RUN_FILE, saved | asdict(computed) | over)


def check_machine(folder: Path, computed: ComputeHistory, now: Machine, *, allowed: bool) -> tuple[str, ...]:
    """Refuse to resume where the bits of the run cannot be reproduced, unless that is allowed; notes otherwise."""
    if computed.latest is None:
        return (UNKNOWN_MACHINE,) if now.libraries else ()
    found = differences(computed.latest, now)
    if not found:
        return ()
    changed = "; ".join(found)
    if not allowed:
        raise InputError(
            f"{folder} cannot be resumed with the same bits on this machine ({changed}): resume it where it was begun, "
            f"or give {setting('allow_different_cpu', True)}."
        )
    return (f"Resumed on another machine ({changed}): the result differs in the last digits.",)


def start_run(
    folder: Path, plan: RunPlan, now: Mapping[str, Any], command: str, computed: ComputeHistory, *, resume: bool
) -> None:
    """Write down what is being trained, or see that everything which it must find again is still the same."""
    if not resume:
        write_run_file(folder, plan, now, command, computed)
        return
    saved = read_run_file(folder)
    before = asdict(saved.data)
    for key, what in (("data", "rows"), ("labels", "labels"), ("tokens", "tokens"), ("columns", "columns")):
        if (before[key] or None) != (now.get(key) or None):
            raise InputError(f"The {what} are not those that {folder} was begun with: train anew, or restore them.")
    remove_leftovers(folder)
    if saved.compute_history != computed:  # another machine goes on
        write_run_file(folder, saved.plan, before, saved.command, computed, saved.fitted)
