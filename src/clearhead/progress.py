"""The protocol of progress callbacks.

Long-running functions have a parameter `progress: Progress = no_progress` and call it with their current stage, the
amount done and the total (None: unknown). A download is a stage, named after its file and measured in bytes.

Public functions with a single stage document a shorter callback, which `from_counts` or `from_done` adapts; all inner
functions take a `Progress`:

- (done, total): `Model.embed`, `Model.generate`, `Model.align`, `bench`, `complexity`
- (done, total or None): `embed`, `translate`, `generate`, `predict_file`, `load_words`, `words`
- (done): `evaluate`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

DoneCallback = Callable[[int], None]
CountCallback = Callable[[int, int | None], None]
KnownCountCallback = Callable[[int, int], None]  # the total is never None


class Progress(Protocol):
    """A callback that takes the stage, the amount done and the total (None: unknown)."""

    def __call__(self, stage: str, done: int, total: int | None, /) -> None: ...


def no_progress(_stage: str, _done: int, _total: int | None, /) -> None:
    """Ignore progress."""


def for_stage(progress: Progress, stage: str) -> Progress:
    """Report the stages of an inner function as one stage of the outer one."""
    return lambda _stage, done, total: progress(stage, done, total)


def from_counts(callback: KnownCountCallback | None) -> Progress:
    """Adapt a public callback that takes (done, total)."""
    if callback is None:
        return no_progress
    return lambda _stage, done, total: callback(done, total)


def from_done(callback: DoneCallback | None) -> Progress:
    """Adapt a public callback that takes the amount done."""
    if callback is None:
        return no_progress
    return lambda _stage, done, _total: callback(done)
