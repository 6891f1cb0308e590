"""What verbs write: tables for people, JSON for scripts, progress on stderr."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from clearhead.cli.streams import json_text

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


@contextmanager
def progress(what: str, *, quiet: bool) -> Iterator[Callable[[int, int | None], None] | None]:
    """A bar on stderr that takes (done, total); None when nobody wants to see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def stages(*, quiet: bool) -> Iterator[Callable[[str, int, int | None], None] | None]:
    """The same for work in several stages: it takes (what, done, total)."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


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
