"""The folder of a run: choose a free name, and lock it against other processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from clearhead.jobs.kinds import has_vectors
from clearhead.jobs.restart import is_available, lock_run_folder

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from clearhead.jobs.plan import RunPlan

RUNS = Path("runs")
P = ParamSpec("P")
T = TypeVar("T")


def lock_output(verb: Callable[P, T]) -> Callable[P, T]:
    """Make a verb lock its output folder, so that a second process cannot write there."""

    @wraps(verb)
    def locked_verb(*args: P.args, **kwargs: P.kwargs) -> T:
        folder: Any = kwargs.get("resume") or kwargs.get("output")
        events: Any = kwargs.get("events")
        with lock_run_folder(folder, events) as kwargs["events"]:
            return verb(*args, **kwargs)

    return locked_verb


def choose_run_folder(source_name: str | None, plan: DataclassInstance, command: str) -> Path:
    """Choose runs/<file name>, with a number if another run has that folder."""
    name = _data_name(source_name)
    candidates = (RUNS / (name if number == 1 else f"{name}-{number}") for number in range(1, 10_000))
    return next(folder for folder in candidates if is_available(folder, plan, command))


def resolve_model_path(plan: RunPlan) -> RunPlan:
    """Make the path of a local model absolute, so that the plan is valid in any working directory."""
    if not Path(plan.model).is_dir() and not has_vectors(plan.model):
        return plan
    return replace(plan, model=str(Path(plan.model).absolute()))


def choose_ladder_folder(source_name: str | None) -> Path:
    """Choose runs/<file name>-ladder, which the same command continues."""
    return RUNS / f"{_data_name(source_name)}-ladder"


def _data_name(source_name: str | None) -> str:
    return "rows" if source_name is None else Path(source_name).name.split(".")[0] or "rows"
