"""Where a run is written: a free name for its folder, and one process at a time in it."""

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
    """A verb that locks the folder which it works in: the same command is not at work there twice."""

    @wraps(verb)
    def call(*given: P.args, **named: P.kwargs) -> T:
        folder: Any = named.get("resume") or named.get("output")
        events: Any = named.get("events")
        with lock_run_folder(folder, events) as named["events"]:
            return verb(*given, **named)

    return call


def choose_run_folder(train: str | None, plan: DataclassInstance, command: str) -> Path:
    """runs/<name of the file>, with a number where that is taken by another run."""
    name = _data_name(train)
    taken = (RUNS / (name if number == 1 else f"{name}-{number}") for number in range(1, 10_000))
    return next(folder for folder in taken if is_available(folder, plan, command))


def resolve_model_path(plan: RunPlan) -> RunPlan:
    """A plan whose model, where it is a folder or a file of vectors, is found from any other folder, too."""
    if not Path(plan.model).is_dir() and not has_vectors(plan.model):
        return plan
    return replace(plan, model=str(Path(plan.model).absolute()))


def choose_ladder_folder(train: str | None) -> Path:
    """runs/<name of the file>-ladder, which the same command goes on with."""
    return RUNS / f"{_data_name(train)}-ladder"


def _data_name(train: str | None) -> str:
    return "rows" if train is None else Path(train).name.split(".")[0] or "rows"
