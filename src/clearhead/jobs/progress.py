"""Compatibility with version 0.1: `RunEvents` under its former name, with its former argument names."""

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
    """Build `RunEvents` from the former argument names."""
    if unknown := sorted(callbacks.keys() - OLD_NAMES.keys()):
        raise TypeError(f"Told() got an unexpected keyword argument {unknown[0]!r}")
    return RunEvents(**{OLD_NAMES[name]: callback for name, callback in callbacks.items() if callback is not None})
