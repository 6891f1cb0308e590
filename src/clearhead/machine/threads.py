"""The thread pools underneath: how many threads they use, and how these wait. None of the libraries is imported here.

A pool whose threads spin while they wait is fastest on an idle machine. Beside another busy process its threads take
turns with that process, each spins until the other gets its turn, and the work collapses. So OpenMP threads spin for a
few microseconds and then sleep, BLAS uses one thread where its products are small, and `--threads` limits every pool.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from threading import RLock
from typing import Any

WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")  # what users set wins
SPIN_COUNT = "1000"  # of GNU's OpenMP, some microseconds: 7 % faster alone than 0; 10,000 lose a third under contention
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
TOKENIZERS, RAYON = "TOKENIZERS_PARALLELISM", "RAYON_NUM_THREADS"


@contextmanager
def passive_waiting() -> Iterator[None]:
    """Import a library that brings OpenMP in here, and its threads sleep while they wait.

    OpenMP reads its environment once, when it is loaded, so that the environment is as before afterwards.
    """
    if any(name in os.environ for name in WAIT_VARIABLES):
        yield
        return
    with _set_environment({"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": SPIN_COUNT}):
        yield


def load_torch() -> Any:
    """torch, with OpenMP threads that sleep while they wait."""
    with passive_waiting():
        return import_module("torch")


def count_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def get_max_threads() -> int:
    """How many threads may work here: one for each core, or as `limit_threads` says."""
    with _LOCK:
        return min([count_cores(), *_limits])


@contextmanager
def limit_blas(count: int) -> Iterator[None]:
    """BLAS on at most so many threads, unless the user chose a number in the environment."""
    chosen = any(name in os.environ for name in BLAS_VARIABLES)
    with _BLAS_LIMITER.limit(
        sys.maxsize if chosen else count
    ):  # a limit in any case: `limit_threads` is for new libraries too
        yield


@contextmanager
def limit_threads(count: int | None) -> Iterator[None]:
    """At most so many threads in every pool; afterwards all is as it was, also where `count` is None.

    Only the pool of the tokenizers, once it is made, keeps its size; on one thread it is not used.
    """
    with ExitStack() as scope:
        _scopes.append(scope)
        scope.callback(_scopes.remove, scope)
        if count is not None:
            with _LOCK:
                _limits.append(count)
            scope.callback(_limits.remove, count)
            scope.enter_context(_BLAS_LIMITER.limit(count))
            chosen = {RAYON: str(min(count, count_cores()))} | ({TOKENIZERS: "false"} if count == 1 else {})
            scope.enter_context(_set_environment({k: v for k, v in chosen.items() if k not in os.environ}))
        yield


def call_at_end(work: Callable[[], Any]) -> None:
    """What is to be done when the innermost `limit_threads` ends; outside of one, nothing."""
    if _scopes:
        _scopes[-1].callback(work)


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
    """The BLAS libraries of this process; of several limits at once, also from several threads, the smallest holds."""

    def __init__(self) -> None:
        self.limits: list[int] = []
        self.libraries: dict[str, tuple[Any, int]] = {}  # with the threads that each had before

    @contextmanager
    def limit(self, count: int) -> Iterator[None]:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

        with _LOCK:
            for one in ThreadpoolController().lib_controllers:  # anew, for a library may have been loaded meanwhile
                if one.user_api == "blas":
                    self.libraries.setdefault(one.filepath, (one, one.num_threads))
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
