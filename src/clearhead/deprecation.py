"""Former names of settings and parameters: accepted for one release, with a deprecation warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any, TypeVar, get_type_hints

from clearhead.caller import setting
from clearhead.errors import InputError

REMOVED_IN = "0.3"

# former name -> current name; files written by version 0.1 contain the former names
TRAINING_SETTINGS = {
    "rate": "learning_rate",
    "head_rate": "head_learning_rate",
    "batch_rows": "batch_size",
    "warmup": "warmup_ratio",
    "beta2": "adam_beta2",
    "decay": "weight_decay",
    "clip": "max_grad_norm",
    "smoothing": "label_smoothing",
    "frozen": "freeze_encoder",
    "unfreeze": "gradual_unfreezing",
    "average": "average_epochs",
}
PLAN_SETTINGS = {"beam": "num_beams", "strength": "C", "vocabulary": "vocab_size"}

F = TypeVar("F", bound=Callable[..., Any])


def rename_stored(values: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Rename stored values from former to current names; the current name wins if both are stored."""
    current = {key: value for key, value in values.items() if key not in renamed}
    former = {renamed[key]: value for key, value in values.items() if key in renamed}
    return former | current


def rename_stored_fields(values: Mapping[str, Any], cls: type) -> dict[str, Any]:
    """Rename stored fields of a dataclass and of nested dataclasses to their current names."""
    current = rename_stored(values, getattr(cls, "FORMER_FIELDS", {}))
    for name, kind in get_type_hints(cls).items():
        if is_dataclass(kind) and isinstance(kind, type) and isinstance(current.get(name), Mapping):
            current[name] = rename_stored_fields(current[name], kind)
    return current


def rename_settings(values: Mapping[str, Any], renamed: Mapping[str, str], *, stacklevel: int = 2) -> dict[str, Any]:
    """Rename settings to their current names; warn about former names, and raise InputError if both are set."""
    for former, current in renamed.items():
        if former not in values:
            continue
        if current in values:
            raise InputError(
                f"{setting(former)} is the former name of {setting(current)}; set only {setting(current)}."
            )
        message = f"{setting(former)} is deprecated and will be removed in {REMOVED_IN}; use {setting(current)}."
        warnings.warn(message, DeprecationWarning, stacklevel=stacklevel + 1)
    return rename_stored(values, renamed)


def renamed_parameters(**renamed: str) -> Callable[[F], F]:
    """Make a function accept keyword arguments under former names, listed as former="current"."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def accept(*args: Any, **kwargs: Any) -> Any:
            if renamed.keys() & kwargs.keys():
                kwargs = rename_settings(kwargs, renamed, stacklevel=2)
            return function(*args, **kwargs)

        return accept  # type: ignore[return-value]

    return decorate


C = TypeVar("C", bound=type)


def renamed_fields(**renamed: str) -> Callable[[C], C]:
    """Make a dataclass accept former names of fields, listed as former="current", in its constructor and attributes."""

    def decorate(cls: C) -> C:
        cls.__init__ = renamed_parameters(**renamed)(cls.__init__)  # type: ignore[misc]

        def read_former(self: Any, name: str) -> Any:
            if name not in renamed:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            message = f"{cls.__name__}.{name} is deprecated and will be removed in {REMOVED_IN}; use {renamed[name]}."
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return getattr(self, renamed[name])

        cls.FORMER_FIELDS = renamed  # type: ignore[attr-defined]
        cls.__getattr__ = read_former  # type: ignore[attr-defined]
        return cls

    return decorate
