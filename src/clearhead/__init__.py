"""Clearhead: from the text you have to a language model you understand, can trust and can afford to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearhead.api import convert, create, load
    from clearhead.batch import Output
    from clearhead.embedding import TruncationWarning
    from clearhead.errors import ClearheadError
    from clearhead.model import Guess, Model

__version__ = "0.1.0"

# Names are looked up when they are first used, so that importing the package costs nothing.
_HOMES = {
    "load": "api",
    "create": "api",
    "convert": "api",
    "Output": "batch",
    "ClearheadError": "errors",
    "Guess": "model",
    "Model": "model",
    "TruncationWarning": "embedding",
}

__all__ = [
    "ClearheadError",
    "Guess",
    "Model",
    "Output",
    "TruncationWarning",
    "__version__",
    "convert",
    "create",
    "load",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'clearhead' has no attribute {name!r}")
    return getattr(import_module(f"clearhead.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
