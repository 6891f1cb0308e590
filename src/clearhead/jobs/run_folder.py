"""The folder of a run: a free name for a new one, and one process at a time in it. Nothing heavy is imported here."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from clearhead.caller import setting
from clearhead.errors import InputError
from clearhead.files import is_taken, read_json
from clearhead.jobs.run_file import RUN

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from clearhead.jobs.plan import RunPlan

RUNS = Path("runs")
P = ParamSpec("P")
T = TypeVar("T")


def alone(verb: Callable[P, T]) -> Callable[P, T]:
    """A verb that locks the folder which it works in: the same command is not at work there twice."""

    @wraps(verb)
    def call(*given: P.args, **named: P.kwargs) -> T:
        from clearhead.jobs.restart import alone_in

        folder: Any = named.get("resume") or named.get("output")
        events: Any = named.get("told")
        with alone_in(folder, events) as named["told"]:
            return verb(*given, **named)

    return call


def free_folder(train: str | None, plan: DataclassInstance, command: str) -> Path:
    """runs/<name of the file>, with a number where that is taken by another run."""
    from clearhead.jobs.restart import is_free

    name = _name(train)
    taken = (RUNS / (name if number == 1 else f"{name}-{number}") for number in range(1, 10_000))
    return next(folder for folder in taken if is_free(folder, plan, command))


def with_absolute_model(plan: RunPlan) -> RunPlan:
    """A plan whose model, where it is a folder or a file of vectors, is found from any other folder, too."""
    from clearhead.jobs.kinds import has_vectors

    if not Path(plan.model).is_dir() and not has_vectors(plan.model):
        return plan
    return replace(plan, model=str(Path(plan.model).absolute()))


def ladder_folder(train: str | None) -> Path:
    """runs/<name of the file>-ladder, which the same command goes on with."""
    return RUNS / f"{_name(train)}-ladder"


def _name(train: str | None) -> str:
    return "rows" if train is None else Path(train).name.split(".")[0] or "rows"


METRICS = "metrics.json"
REPORT = "report.html"
SPLIT = "split.json"
MOST_SPLIT = 1 << 30


def read_split(folder: Path, part: str) -> frozenset[int]:
    """The numbers of the rows that a run held out."""
    if not (folder / SPLIT).is_file():
        raise InputError(f"{folder} does not say which rows were held out: it has no {SPLIT}.")
    parts = read_json(folder / SPLIT, most=MOST_SPLIT).get("parts")
    numbers = parts.get(part) if isinstance(parts, dict) else None
    if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
        named = ", ".join(parts) if isinstance(parts, dict) and parts else "no part"
        raise InputError(f"{folder} held out {named} of its training file, and not {part!r}.")
    return frozenset(numbers)


def take_back(folder: Path, *, existed: bool, made: Iterable[str] = ()) -> None:
    """Remove what a run that cannot begin has written, so that it can be called again with other settings.

    `made` are patterns of files and folders that it made beside its run.json.
    """
    for path in (path for pattern in made for path in folder.glob(pattern)):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    (folder / RUN).unlink(missing_ok=True)
    if not existed:
        with suppress(OSError):  # something else is in it
            folder.rmdir()


def check_folder(folder: Path) -> None:
    """One sentence where a run cannot begin in a folder."""
    taken = is_taken(folder)
    if taken and (folder / RUN).exists() and not (folder / METRICS).exists():
        resumed = setting("resume", str(folder))
        raise InputError(f"{folder} holds a run that is not finished: continue it with {resumed}, or name another.")
    if taken:
        raise InputError(f"{folder} is there already and not empty; name another folder with {setting('output')}.")
