"""Size the thread pools of libraries and control how their threads wait, without importing the libraries.

Threads that spin while waiting are fastest on an idle machine. Next to another busy process they compete for cores,
spin through their time slices, and slow down drastically. So OpenMP threads spin for a few microseconds and then sleep,
BLAS uses one thread for small products, and `--threads` limits every pool.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from threading import RLock
from typing import Any

WAIT_VARIABLES = (
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "KMP_BLOCKTIME",
    "KMP_LIBRARY",
)  # values set by the user take precedence
SPIN_COUNT = (
    "1000"  # GNU OpenMP, a few microseconds: 7 % faster than 0 when idle; 10,000 loses a third under contention
)
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
TOKENIZERS, RAYON = "TOKENIZERS_PARALLELISM", "RAYON_NUM_THREADS"


@contextmanager
def passive_waiting() -> Iterator[None]:
    """Make OpenMP of a library that is imported in this context sleep while waiting.

    OpenMP reads the environment only once, when it is loaded, so the environment is restored afterwards.
    """
    if any(name in os.environ for name in WAIT_VARIABLES):
        yield
        return
    with _set_environment({"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": SPIN_COUNT}):
        yield


def load_torch() -> Any:
    """Import torch with OpenMP threads that sleep while waiting."""
    with passive_waiting():
        return import_module("torch")


def count_cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def get_max_threads() -> int:
    """Return the maximum number of threads: one per core, or the limit of `limit_threads`."""
    with _LOCK:
        return min([count_cores(), *_limits])


@contextmanager
def limit_blas(count: int) -> Iterator[None]:
    """Limit BLAS to `count` threads, unless the user set a number in the environment."""
    is_set_by_user = any(name in os.environ for name in BLAS_VARIABLES)
    with _BLAS_LIMITER.limit(
        sys.maxsize if is_set_by_user else count
    ):  # always enter, so that outer limits apply to newly loaded libraries
        yield


@contextmanager
def limit_threads(count: int | None) -> Iterator[None]:
    """Limit every thread pool to `count` threads, and restore the pools afterwards, also if `count` is None.

    The pool of tokenizers keeps its size once it is created; with one thread it is not used.
    """
    with ExitStack() as scope:
        _scopes.append(scope)
        scope.callback(_scopes.remove, scope)
        if count is not None:
            with _LOCK:
                _limits.append(count)
            scope.callback(_limits.remove, count)
            scope.enter_context(_BLAS_LIMITER.limit(count))
            variables = {RAYON: str(min(count, count_cores()))} | ({TOKENIZERS: "false"} if count == 1 else {})
            scope.enter_context(_set_environment({k: v for k, v in variables.items() if k not in os.environ}))
        yield


def call_at_end(callback: Callable[[], Any]) -> None:
    """Call `callback` when the innermost `limit_threads` ends; do nothing outside of one."""
    if _scopes:
        _scopes[-1].callback(callback)


@contextmanager
def _set_environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _BlasLimiter:
    """Limits the BLAS libraries of this process; the smallest of simultaneous limits applies, across threads."""

    def __init__(self) -> None:
        self.limits: list[int] = []
        self.libraries: dict[str, tuple[Any, int]] = {}  # with its original number of threads

    @contextmanager
    def limit(self, count: int) -> Iterator[None]:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

        with _LOCK:
            for library in ThreadpoolController().lib_controllers:  # anew, for a library may have been loaded meanwhile
                if library.user_api == "blas":
                    self.libraries.setdefault(library.filepath, (library, library.num_threads))
            self.limits.append(count)
            self._apply_limits()
        try:
            yield
        finally:
            with _LOCK:
                self.limits.remove(count)
                self._apply_limits()
                if not self.limits:
                    self.libraries.clear()

    def _apply_limits(self) -> None:
        for library, before in self.libraries.values():
            library.set_num_threads(min([before, *self.limits]))


_LOCK = RLock()
_BLAS_LIMITER = _BlasLimiter()
_limits: list[int] = []
_scopes: list[ExitStack] = []
