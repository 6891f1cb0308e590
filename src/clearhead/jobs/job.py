"""The steps that every job has, and what a caller asks of one.

`plan` checks what was asked and finds out what is still open, `prepare` reads the rows, resolves the plan and stores
it, `fit` learns, `measure` answers held-out rows, `save` writes the model, and `report` writes the page and closes the
folder. A step reads what the steps before it left. Once it is stored, no step changes the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from clearhead.data import Source
from clearhead.jobs.events import NO_EVENTS, RunEvents
from clearhead.machine.threads import limit_threads


class Plan(Protocol):
    """What is to be done."""

    @property
    def threads(self) -> int | None:
        """How many threads a job may use; None leaves that to each library."""


P = TypeVar("P", bound=Plan)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, kw_only=True)
class JobRequest(Generic[P]):
    """What a caller asks of a job; the public functions in `api` make it."""

    plan: P  # as it was asked for, or as the run that is resumed has stored it
    folder: Path
    sources: Mapping[str, Source] = field(default_factory=dict)  # train, and dev and test where they were given
    command: str = ""
    resume: bool = False
    allow_different_cpu: bool = False
    finish: bool = False  # a run that was stopped is measured and saved as it is
    report: bool = True
    events: RunEvents = NO_EVENTS


class Job(Protocol[R_co]):
    """Work that ends in a run folder."""

    @property
    def request(self) -> JobRequest[Any]:
        """What was asked."""

    def plan(self) -> None:
        """Check what was asked, and find out what the plan leaves open."""

    def prepare(self) -> None:
        """Read what is learned from, resolve the plan and store it."""

    def fit(self) -> None:
        """Learn, or go on from where a killed run stands."""

    def measure(self) -> None:
        """Answer held-out rows, and compare with other methods."""

    def save(self) -> None:
        """Write the model folder."""

    def report(self) -> R_co:
        """Write the report, note that the run is finished, and return it."""


def run_job(job: Job[R]) -> R:
    """All steps in their order, on at most the threads of the plan."""
    with limit_threads(job.request.plan.threads):
        job.plan()
        job.prepare()
        job.fit()
        job.measure()
        job.save()
        return job.report()
