"""--verbose: the settings of a command, the time of its stages and tracebacks, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from inspect import BoundArguments
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import ClearheadError

if TYPE_CHECKING:
    from clearhead.api.support import Progress

FLAG = "--verbose"
_verbose: ContextVar[bool] = ContextVar("verbose", default=False)


def split_verbose(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The arguments without --verbose, and whether it was among them; arguments after `--` are texts."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    options = [argument for argument in arguments[:end] if argument != FLAG]
    return [*options, *arguments[end:]], len(options) < end


@contextmanager
def use_verbose(enabled: bool) -> Iterator[None]:
    """Enable or disable settings, timings and tracebacks inside this block."""
    token = _verbose.set(enabled)
    try:
        yield
    finally:
        _verbose.reset(token)


def is_verbose() -> bool:
    """Whether --verbose was given."""
    return _verbose.get()


def print_detail(line: str) -> None:
    """Print a line on stderr with --verbose."""
    if is_verbose():
        with suppress(OSError):
            sys.stderr.write(f"{line}\n")


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an error whose message is printed anyway."""
    if is_verbose():
        import traceback

        for line in traceback.format_exception(error):
            print_detail(line.rstrip("\n"))


def print_settings(verb: str | None, bound: BoundArguments) -> None:
    """Print the arguments of a command, defaults included."""
    if verb is None or not is_verbose():
        return
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        if value is not None:
            print_detail(f"{verb}: {name} = {value!s}")


def print_plan(folder: Path) -> None:
    """Print the resolved plan of a run, as stored in run.json."""
    if not is_verbose():
        return
    from clearhead.api.support import read_json

    with suppress(ClearheadError):  # a plan that cannot be read does not end the command
        for name, value in _flatten(read_json(folder / "run.json").get("plan", {})):
            print_detail(f"plan: {name} = {value}")


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", value


@contextmanager
def timed_command() -> Iterator[None]:
    """Print how long a command took."""
    start = time.perf_counter()
    yield
    print_detail(f"total: {time.perf_counter() - start:.2f} s")


class StageTimer:
    """Progress callback that prints the seconds of each stage when the next one begins; passes reports on."""

    def __init__(self, inner: Progress | None) -> None:
        self._inner = inner
        self._stage, self._start = "", time.perf_counter()

    def __call__(self, stage: str, done: int, total: int | None, /) -> None:
        if stage != self._stage:
            self.stop()
            self._stage, self._start = stage, time.perf_counter()
        if self._inner is not None:
            self._inner(stage, done, total)

    def stop(self) -> None:
        """Print the time of the stage that is running."""
        if self._stage:
            print_detail(f"{self._stage}: {time.perf_counter() - self._start:.2f} s")
        self._stage = ""
