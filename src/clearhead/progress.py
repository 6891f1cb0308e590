"""Progress callbacks: one protocol for all of them.

Functions that take a while have a parameter `progress: Progress = no_progress` and call it with the stage they are in,
how much of it is done and how much there is in all (None: not known). A download is a stage, named after its file, in
bytes.

Public functions with a single stage document a shorter callback. It is adapted where it enters, with `from_counts` or
`from_done`; everything below takes a `Progress`:

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
    """What a function calls while it works: the stage, how much of it is done, and of how much (None: not known)."""

    def __call__(self, stage: str, done: int, total: int | None, /) -> None: ...


def no_progress(_stage: str, _done: int, _total: int | None, /) -> None:
    """Report nothing."""


def for_stage(progress: Progress, stage: str) -> Progress:
    """Report the stages of an inner function as one stage of the outer one."""
    return lambda _stage, done, total: progress(stage, done, total)


def from_counts(callback: KnownCountCallback | None) -> Progress:
    """Adapt a public callback that takes (done, total)."""
    if callback is None:
        return no_progress
    return lambda _stage, done, total: callback(done, total)


def from_done(callback: DoneCallback | None) -> Progress:
    """Adapt a public callback that takes how much is done."""
    if callback is None:
        return no_progress
    return lambda _stage, done, _total: callback(done)
