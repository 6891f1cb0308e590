"""`RunEvents` by the name and the argument names of version 0.1, for programs that import it from here."""

from __future__ import annotations

from typing import Any

from clearhead.jobs.events import RunEvents

OLD_NAMES = {
    "say": "message",
    "begun": "started",
    "seed": "seed_started",
    "step": "training_step",
    "count": "progress",
    "download": "download",
}


def Told(**callbacks: Any) -> RunEvents:  # noqa: N802
    """The events of a run."""
    if unknown := sorted(callbacks.keys() - OLD_NAMES.keys()):
        raise TypeError(f"Told() got an unexpected keyword argument {unknown[0]!r}")
    return RunEvents(**{OLD_NAMES[name]: call for name, call in callbacks.items() if call is not None})
