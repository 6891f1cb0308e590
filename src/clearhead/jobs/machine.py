"""Threads, precision and machine of a run: resolved once at the start, and compared when it is resumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from clearhead.jobs.kinds import has_vectors
from clearhead.jobs.plan import NETWORK_METHODS, RunPlan
from clearhead.jobs.run_file import ComputeHistory, check_machine, read_run_file
from clearhead.machine.cpu import Machine, base_machine, engine_versions
from clearhead.model.loading import require_torch
from clearhead.training.settings import TrainSettings


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Threads, settings with resolved precision, and machine of a run."""

    threads: int | None  # None: as many as the model can use, once it is loaded
    settings: TrainSettings
    machine: Machine


def resolve_compute(plan: RunPlan) -> Compute:
    """Resolve threads, precision and machine of a run."""
    if runs_without_torch(plan):
        return Compute(threads=plan.threads, settings=plan.settings, machine=base_machine())
    require_torch("Training a network")
    from clearhead.training.threads import use_threads

    threads = plan.threads
    if threads is not None or plan.method not in NETWORK_METHODS:  # otherwise as many as the model can use
        threads = use_threads(threads)  # a resumed run uses the same number
    machine = detect_machine(plan)
    settings = plan.settings.resolve_precision(machine.precision) if plan.method in NETWORK_METHODS else plan.settings
    return Compute(threads=threads, settings=settings, machine=machine)


def detect_machine(plan: RunPlan) -> Machine:
    """Describe this machine as a plan uses it, with the current number of threads."""
    if runs_without_torch(plan):
        return base_machine()
    from clearhead.training.torch_machine import detect_torch_machine

    machine = detect_torch_machine(plan.settings.precision, plan.device)
    if plan.method in NETWORK_METHODS:
        return machine
    # the model folder determines the precision
    return replace(machine, precision="", libraries=machine.libraries | engine_versions())


def runs_without_torch(plan: RunPlan) -> bool:
    """Whether a plan needs neither torch nor ONNX Runtime: TF-IDF, majority class, or word vectors."""
    return plan.method in ("tfidf", "majority") or uses_word_vectors(plan)


def update_compute_history(
    folder: Path, machine: Machine, *, resume: bool, allowed: bool, report_message: Callable[[str], None]
) -> ComputeHistory:
    """Return the machines of a run, ending with this one; refuse a change of machine unless it is allowed."""
    if not resume:
        return ComputeHistory(machine=machine)
    history = read_run_file(folder).compute_history
    for note in check_machine(folder, history, machine, allowed=allowed):
        report_message(note)
    return history.resume_on(machine)


def check_resumable(folder: Path, *, allowed: bool) -> None:
    """Refuse to resume a run from another machine, before any work is done."""
    saved = read_run_file(folder)
    check_machine(folder, saved.compute_history, replace(detect_machine(saved.plan), threads=None), allowed=allowed)


def uses_word_vectors(plan: RunPlan) -> bool:
    """Whether a run uses word vectors, not a Transformer, as features."""
    return plan.method == "features" and has_vectors(plan.model)
