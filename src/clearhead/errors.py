"""Exceptions: every error that a user can cause is a `ClearheadError` with one clear sentence.

    ClearheadError
    ├── InputError          an invalid argument: ids out of range, a wrong shape, an unknown option
    ├── ModelNotFoundError  a model reference that cannot be resolved
    ├── CheckpointError     a model folder that cannot be loaded
    │   ├── ConfigError     config.json contains impossible or unsupported values
    │   ├── TensorError     names, shapes or values of tensors; lists all problems at once
    │   └── UnsafeError     pickles, paths outside the folder, unreasonable sizes: always rejected
    ├── TokenizerError      a tokenizer file that cannot be used
    ├── QualityError        a smaller model that loses more quality than allowed; nothing is written
    ├── HubError            the hub: not reachable, access denied, file not found
    └── MissingExtraError   an optional dependency is not installed; the message names the extra

The command line prints the sentence and exits with 2. Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

MAX_MESSAGE_CHARS = 4_000  # of an error message


class ClearheadError(Exception):
    """An error that a user can cause and fix; the message states what is wrong, what was expected and what to do."""

    def __init__(self, message: str = "") -> None:
        if len(message) > MAX_MESSAGE_CHARS:  # contains a value of a file: keep beginning and end
            message = f"{message[: MAX_MESSAGE_CHARS - 500]} ... {message[-500:]}"
        super().__init__(message)


class InputError(ClearheadError):
    """An argument is invalid."""


class ModelNotFoundError(ClearheadError):
    """A model reference is not a folder, alias or hub id that can be found."""


class CheckpointError(ClearheadError):
    """A model folder cannot be loaded or written."""


class ConfigError(CheckpointError):
    """config.json contains impossible or unsupported values."""


class TensorError(CheckpointError):
    """Tensors do not fit the architecture; the message lists all of them."""


class UnsafeError(CheckpointError):
    """A file would run code, access paths outside its folder, or need unreasonable amounts of memory."""


class TokenizerError(ClearheadError):
    """A tokenizer file cannot be read, or the tokenizer returns unexpected ids."""


class QualityError(ClearheadError):
    """A model that was made smaller or faster loses more quality than allowed."""


class HubError(ClearheadError):
    """The hub could not be reached, denied access, or does not have the file."""


class MissingExtraError(ClearheadError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} requires an optional dependency that is not installed: pip install 'clearhead[{extra}]'"
        )


class MissingPackageError(ClearheadError):
    """A required package is missing from the installation."""

    def __init__(self, feature: str, package: str) -> None:
        super().__init__(f"{feature} requires {package}, which is not installed: pip install {package}")
