"""What verbs write: tables for people, JSON for scripts, progress on stderr."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from clearhead.cli.streams import json_text

if TYPE_CHECKING:
    from clearhead.api.support import CountCallback, Progress

# what files may hold and a terminal must not get: control characters, half characters, switches of direction
UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def print_json(value: Any) -> None:
    """One JSON value on stdout."""
    sys.stdout.write(json_text(value) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """A table on stdout; cells are text, never markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=None if title is None else Text(UNSEEN.sub("?", title)), title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(UNSEEN.sub("?", cell)) for cell in row))
    Console(soft_wrap=False).print(table)


def say(text: str, *, quiet: bool = False) -> None:
    """A remark for people, on stderr."""
    if not quiet:
        with suppress(OSError):  # a remark that nobody can read is no reason to stop
            sys.stderr.write(text + "\n")


class StageBars:
    """Progress as bars of a display: one that all stages share, or one for each stage."""

    def __init__(self, display: Any, *, shared: bool = True, **fields: Any) -> None:
        self._display, self._shared, self._fields = display, shared, fields
        self._bars: dict[str, Any] = {}

    def __call__(self, stage: str, done: int, total: int | None, /) -> None:
        key = "" if self._shared else stage
        if key not in self._bars:
            self._bars[key] = self._display.add_task(stage, **self._fields)
        self._display.update(self._bars[key], description=stage, completed=done, total=total, visible=True)

    def hide(self) -> None:
        """Hide the bars until the next report."""
        for bar in self._bars.values():
            self._display.update(bar, visible=False)


@contextmanager
def stage_bars(*columns: str, quiet: bool, shared: bool = True) -> Iterator[StageBars | None]:
    """Bars on stderr with some columns of rich behind each description; None where nobody would see them."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich_progress
    from rich.console import Console

    shown = (rich_progress.TextColumn("{task.description}"), *(getattr(rich_progress, name)() for name in columns))
    with rich_progress.Progress(*shown, console=Console(stderr=True), transient=True) as display:
        yield StageBars(display, shared=shared, total=None)


@contextmanager
def stages(*, quiet: bool) -> Iterator[Progress | None]:
    """A bar for work in several stages; None where nobody would see it."""
    with stage_bars("BarColumn", "MofNCompleteColumn", quiet=quiet) as bars:
        if bars is not None:
            bars("", 0, None)
        yield bars


@contextmanager
def progress(stage: str, *, quiet: bool) -> Iterator[CountCallback | None]:
    """A bar for a public function with one stage, which reports (done, total); None where nobody would see it."""
    with stage_bars("BarColumn", "MofNCompleteColumn", "TimeRemainingColumn", quiet=quiet) as bars:
        if bars is None:
            yield None
        else:
            bars(stage, 0, None)
            yield partial(bars, stage)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Our own warnings are a sentence on stderr, without the line of code that they come from."""
    import warnings

    before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if category.__module__.split(".")[0] == "clearhead":
            say(f"clearhead: {message}")
        else:
            before(message, category, *rest, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


@contextmanager
def model_notes(*, quiet: bool) -> Iterator[None]:
    """What loading has to say goes to stderr as it is, or nowhere."""
    log = logging.getLogger("clearhead")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    before, spread = log.level, log.propagate
    log.addHandler(handler)
    log.propagate = False
    log.setLevel(logging.ERROR if quiet else logging.WARNING)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
        log.propagate = spread


@contextmanager
def truncations() -> Iterator[list[str]]:
    """Collect what was said of texts that were cut off; other warnings are shown as always."""
    import warnings

    from clearhead.api.support import TruncationWarning

    found: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", TruncationWarning)
        show = warnings.showwarning

        def collect(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, TruncationWarning):
                found.append(str(message))
            else:
                show(message, category, *rest, **more)

        warnings.showwarning = collect
        yield found
