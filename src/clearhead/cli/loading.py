"""Loading a model for a command, with notes and download progress on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from clearhead.cli.screen import model_notes, stage_bars

if TYPE_CHECKING:
    from clearhead.api.support import Model, Progress


def load_model(reference: str, *, quiet: bool, precision: str | None = None) -> Model:
    """Load a model, with notes and download bars on stderr unless `quiet`."""
    from clearhead.api import load

    with model_notes(quiet=quiet), download_bars(quiet=quiet) as bars:
        return load(reference, precision=precision, progress=bars)


@contextmanager
def download_bars(*, quiet: bool) -> Iterator[Progress | None]:
    """A bar in bytes for each downloaded file; None if stderr is not a terminal."""
    with stage_bars("BarColumn", "DownloadColumn", "TransferSpeedColumn", quiet=quiet, shared=False) as bars:
        yield bars
