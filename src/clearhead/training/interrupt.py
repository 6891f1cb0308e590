"""Ctrl-C during training: the current step is finished and saved first; a second Ctrl-C stops immediately."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class TrainingInterrupted(KeyboardInterrupt):
    """The user stopped training between two steps, and its state is saved; the message names the step."""


class StopRequest:
    """Whether a stop was requested with SIGINT."""

    def __init__(self) -> None:
        self.requested = False

    def handle(self, *_: Any) -> None:
        """Record the first signal; raise KeyboardInterrupt on every later one."""
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        for notify in _listeners:
            with suppress(Exception):  # a listener that fails must not cost the training state
                notify()


_listeners: list[Callable[[], None]] = []


@contextmanager
def deferred_interrupt() -> Iterator[StopRequest]:
    """Record SIGINT instead of raising KeyboardInterrupt in the middle of a step.

    Replaces only Python's default handler, or an equivalent one (with the attribute `raises_interrupt`, as the command
    line installs it), and only in the main thread; the handler of an application stays in place.
    """
    request = StopRequest()
    previous_handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    is_replaceable = previous_handler is signal.default_int_handler or getattr(
        previous_handler, "raises_interrupt", False
    )
    if not is_main or not is_replaceable:
        yield request
        return
    signal.signal(signal.SIGINT, request.handle)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, previous_handler)


@contextmanager
def on_stop_request(notify: Callable[[], None]) -> Iterator[None]:
    """Call `notify` from the signal handler when a stop is requested, to acknowledge the key press."""
    _listeners.append(notify)
    try:
        yield
    finally:
        _listeners.remove(notify)
