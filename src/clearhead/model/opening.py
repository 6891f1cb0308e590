"""Opens the model of a command: by name, or already loaded; and the prefix of its sources."""

from __future__ import annotations

import os

from clearhead.caller import setting
from clearhead.errors import InputError
from clearhead.model.loading import load
from clearhead.model.model import Model
from clearhead.progress import Progress


def as_model(
    model: str | os.PathLike[str] | Model,
    *,
    precision: str | None = None,
    progress: Progress | None = None,
) -> Model:
    """Load a model by its reference, or return it if it is already loaded."""
    if not isinstance(model, Model):
        return load(model, precision=precision, progress=progress)
    if precision is not None:
        raise InputError(f"{setting('precision')} applies to a model given by name; pass it to load() instead.")
    return model


def source_prefix(model: Model) -> str:
    """Return the prefix that the model was trained to expect before every source."""
    settings = {} if model.trained is None else model.trained.settings
    prefix = settings.get("prefix")
    return prefix if isinstance(prefix, str) else ""


__all__ = ["as_model", "source_prefix"]
