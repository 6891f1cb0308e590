"""A clock that only the tests advance, so that code with a time budget is tested without real time."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import pytest


class Clock:
    """A clock whose time passes only in `advance`."""

    def __init__(self) -> None:
        self.now = 0.0

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def install(self, monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
        """Replace the clock that a module reads."""
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: self.now))
