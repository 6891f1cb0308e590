"""A model for a verb: loaded by its name or loaded already, and what stands before each of its sources."""

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
    """The model of a reference, or the one that is loaded already."""
    if not isinstance(model, Model):
        return load(model, precision=precision, progress=progress)
    if precision is not None:
        raise InputError(f"{setting('precision')} is for a model that is loaded by its name; load this one with it.")
    return model


def source_prefix(model: Model) -> str:
    """What the model was trained to find before every source."""
    settings = {} if model.trained is None else model.trained.settings
    prefix = settings.get("prefix")
    return prefix if isinstance(prefix, str) else ""


__all__ = ["as_model", "source_prefix"]
