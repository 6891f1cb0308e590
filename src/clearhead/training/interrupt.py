"""Ctrl-C while a network is trained: the step is finished and saved first; a second Ctrl-C stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class TrainingInterrupted(KeyboardInterrupt):
    """Training was stopped by the user between two steps, after its state was saved; the message says where."""


class StopRequest:
    """Whether a stop was requested, by SIGINT."""

    def __init__(self) -> None:
        self.requested = False

    def handle(self, *_: Any) -> None:
        """Note the first signal; from the second on, interrupt whatever is being done."""
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        for notify in _listeners:
            with suppress(Exception):  # a remark that cannot be shown is no reason to lose the state
                notify()


_listeners: list[Callable[[], None]] = []


@contextmanager
def deferred_interrupt() -> Iterator[StopRequest]:
    """Collect SIGINT instead of raising KeyboardInterrupt in the middle of a step.

    Python's own handler is replaced, and one that does the same (`raises_interrupt`, as the command line has it), and
    only in the main thread: an application's own one is respected.
    """
    request = StopRequest()
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    is_plain = before is signal.default_int_handler or getattr(before, "raises_interrupt", False)
    if not is_main or not is_plain:
        yield request
        return
    signal.signal(signal.SIGINT, request.handle)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def on_stop_request(notify: Callable[[], None]) -> Iterator[None]:
    """Call `notify` in the signal handler when a stop is requested, so that people know that the key was noticed."""
    _listeners.append(notify)
    try:
        yield
    finally:
        _listeners.remove(notify)
