"""One tree of errors: whatever a user can cause is a `ClearheadError` with one clear sentence.

    ClearheadError
    ├── InputError          a value handed to a call: ids out of range, a wrong shape, an unknown option
    ├── ModelNotFoundError  a model reference that names nothing we can find
    ├── CheckpointError     a model folder that cannot be loaded
    │   ├── ConfigError     config.json says something impossible or unsupported
    │   ├── TensorError     names, shapes or values of tensors; lists all problems at once
    │   └── UnsafeError     pickles, paths out of the folder, sizes beyond reason: refused, never tried
    ├── TokenizerError      a tokenizer file that cannot be used
    ├── QualityError        a smaller model that loses more than is allowed: refused, nothing is written
    ├── HubError            the hub: not reachable, not allowed, not there
    └── MissingExtraError   an optional part is not installed; says which extra brings it

The command line prints the sentence and exits with 2; anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

MAX_MESSAGE_CHARS = 4_000  # letters


class ClearheadError(Exception):
    """Anything a user can cause and can mend; the message says what came, what was expected, what to do."""

    def __init__(self, message: str = "") -> None:
        if len(message) > MAX_MESSAGE_CHARS:  # a value out of a file is part of it: begin and end tell enough
            message = f"{message[: MAX_MESSAGE_CHARS - 500]} ... {message[-500:]}"
        super().__init__(message)


class InputError(ClearheadError):
    """A value handed to a call does not fit."""


class ModelNotFoundError(ClearheadError):
    """A model reference names no folder, alias or hub id that can be found."""


class CheckpointError(ClearheadError):
    """A model folder cannot be loaded or written."""


class ConfigError(CheckpointError):
    """config.json says something impossible or unsupported."""


class TensorError(CheckpointError):
    """Tensors do not fit the architecture; the message lists every one of them."""


class UnsafeError(CheckpointError):
    """A file asks for something that is never done: run code, leave the folder, take absurd memory."""


class TokenizerError(ClearheadError):
    """A tokenizer file cannot be read, or gives other ids than it promised."""


class QualityError(ClearheadError):
    """A model that was made smaller or faster loses more than is allowed."""


class HubError(ClearheadError):
    """The hub could not be reached, said no, or has no such file."""


class MissingExtraError(ClearheadError):
    """An optional dependency is not installed."""

    def __init__(self, need: str, extra: str) -> None:
        super().__init__(f"{need} needs an optional part that is not installed: pip install 'clearhead[{extra}]'")


class MissingPackageError(ClearheadError):
    """A package that every installation has is gone."""

    def __init__(self, need: str, package: str) -> None:
        super().__init__(f"{need} needs {package}, which is not installed: pip install {package}")
