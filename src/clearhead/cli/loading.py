"""Loading a model for a verb: what it says goes to stderr, a download shows its progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from clearhead.cli.screen import model_notes

if TYPE_CHECKING:
    from clearhead.api.support import Model


def load_model(reference: str, *, quiet: bool, precision: str | None = None) -> Model:
    """The model, with notes and download bars on stderr unless nobody wants them."""
    from clearhead.api import load

    with model_notes(quiet=quiet), downloads(quiet=quiet) as bars:
        return load(reference, precision=precision, progress=bars)


@contextmanager
def downloads(*, quiet: bool) -> Iterator[Callable[[str, int, int | None], None] | None]:
    """A bar per file that takes (file, done, total) in bytes; None where there is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total)
            bar.update(tasks[file], completed=done, total=total)

        yield report
