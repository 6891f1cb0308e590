"""The steps of every job, and the request that starts one.

`plan` checks the request and determines open settings, `prepare` reads the rows, resolves the plan and stores it, `fit`
trains, `measure` evaluates on held-out rows, `save` writes the model, and `report` writes the report and finishes the
folder. Each step uses the results of the previous steps. No step changes the stored plan.
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
    """The settings of a job."""

    @property
    def threads(self) -> int | None:
        """Number of threads; None leaves it to each library."""


P = TypeVar("P", bound=Plan)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, kw_only=True)
class JobRequest(Generic[P]):
    """A request for a job, built by the public functions in `api`."""

    plan: P  # as requested, or as stored by the run to resume
    folder: Path
    sources: Mapping[str, Source] = field(default_factory=dict)  # train, and optionally dev and test
    command: str = ""
    resume: bool = False
    allow_different_cpu: bool = False
    finish: bool = False  # measure and save a stopped run without further training
    report: bool = True
    events: RunEvents = NO_EVENTS


class Job(Protocol[R_co]):
    """A job that writes a run folder."""

    @property
    def request(self) -> JobRequest[Any]:
        """The request."""

    def plan(self) -> None:
        """Check the request and determine open settings."""

    def prepare(self) -> None:
        """Read the training data, resolve the plan and store it."""

    def fit(self) -> None:
        """Train, or continue an interrupted training."""

    def measure(self) -> None:
        """Evaluate on held-out rows, and compare with other methods."""

    def save(self) -> None:
        """Write the model folder."""

    def report(self) -> R_co:
        """Write the report, mark the run as finished, and return its result."""


def run_job(job: Job[R]) -> R:
    """Run all steps in order, on at most the threads of the plan."""
    with limit_threads(job.request.plan.threads):
        job.plan()
        job.prepare()
        job.fit()
        job.measure()
        job.save()
        return job.report()
