"""Loading a model for a verb: what it says goes to stderr, a download shows its progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from clearhead.cli.screen import model_notes, stage_bars

if TYPE_CHECKING:
    from clearhead.api.support import Model, Progress


def load_model(reference: str, *, quiet: bool, precision: str | None = None) -> Model:
    """The model, with notes and download bars on stderr unless nobody wants them."""
    from clearhead.api import load

    with model_notes(quiet=quiet), downloads(quiet=quiet) as bars:
        return load(reference, precision=precision, progress=bars)


@contextmanager
def downloads(*, quiet: bool) -> Iterator[Progress | None]:
    """A bar for each file, in bytes; None where nobody would see it."""
    with stage_bars("BarColumn", "DownloadColumn", "TransferSpeedColumn", quiet=quiet, shared=False) as bars:
        yield bars
