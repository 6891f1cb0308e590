"""Where a run computes: resolved once at its beginning, and compared when it is resumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from clearhead.jobs.kinds import has_vectors
from clearhead.jobs.plan import NETWORK_METHODS, RunPlan
from clearhead.jobs.run_file import ComputeHistory, check_machine, read_run_file
from clearhead.machine.cpu import Machine, base_machine, engine_version
from clearhead.model.loading import require_torch
from clearhead.training.settings import TrainSettings


@dataclass(frozen=True, kw_only=True)
class Compute:
    """How a run computes: its threads, its settings with the precision that "auto" became, and the machine."""

    threads: int | None  # None: as many as the model keeps busy, once it is known
    settings: TrainSettings
    machine: Machine


def resolve_compute(plan: RunPlan) -> Compute:
    """Threads and precision of a run, resolved once, and the machine that computes it."""
    if runs_without_torch(plan):
        return Compute(threads=plan.threads, settings=plan.settings, machine=base_machine())
    require_torch("Training a network")
    from clearhead.training.threads import use_threads

    threads = plan.threads
    if threads is not None or plan.method not in NETWORK_METHODS:  # otherwise as many as the model keeps busy
        threads = use_threads(threads)  # a resumed run uses as many
    machine = detect_machine(plan)
    settings = plan.settings.resolve_precision(machine.precision) if plan.method in NETWORK_METHODS else plan.settings
    return Compute(threads=threads, settings=settings, machine=machine)


def detect_machine(plan: RunPlan) -> Machine:
    """This machine as a plan uses it, on the threads that are set."""
    if runs_without_torch(plan):
        return base_machine()
    from clearhead.training.torch_machine import detect_torch_machine

    made = detect_torch_machine(plan.settings.precision, plan.device)
    if plan.method in NETWORK_METHODS:
        return made
    return replace(made, precision="", libraries=made.libraries | engine_version())  # the model folder says which


def runs_without_torch(plan: RunPlan) -> bool:
    """Whether neither torch nor the engine computes: words are counted, or vectors looked up."""
    return plan.method in ("tfidf", "majority") or uses_word_vectors(plan)


def start_computing(
    folder: Path, machine: Machine, *, resume: bool, allowed: bool, say: Callable[[str], None]
) -> ComputeHistory:
    """Where a run computes: here, and before that wherever it was begun; refused where that changes its bits."""
    if not resume:
        return ComputeHistory(machine=machine)
    before = read_run_file(folder).compute_history
    for note in check_machine(folder, before, machine, allowed=allowed):
        say(note)
    return before.resume_on(machine)


def check_resumable(folder: Path, *, allowed: bool) -> None:
    """Refuse a run that was begun on another machine, before anything is done in vain."""
    saved = read_run_file(folder)
    check_machine(folder, saved.compute_history, replace(detect_machine(saved.plan), threads=None), allowed=allowed)


def uses_word_vectors(plan: RunPlan) -> bool:
    """Whether a run takes its features from word vectors rather than from a Transformer."""
    return plan.method == "features" and has_vectors(plan.model)
