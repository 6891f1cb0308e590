"""Read and write tokenizer files, with limits on their sizes and clear errors for invalid files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clearhead.errors import ClearheadError, TokenizerError
from clearhead.files import atomic_file, to_printable

MEGABYTE = 1 << 20
MAX_VOCABULARY_BYTES = 512 * MEGABYTE  # the largest published vocabularies (250,000 pieces) have about 20 MB
MAX_SETTINGS_BYTES = 16 * MEGABYTE  # settings with chat templates have a few hundred kB


def read_bytes(path: Path, *, limit: int = MAX_VOCABULARY_BYTES) -> bytes:
    """Read a file, or raise a TokenizerError if it is larger than `limit` bytes."""
    try:
        with path.open("rb") as file:
            # Reading one byte more than allowed also detects pipes and growing files that are too large.
            if os.fstat(file.fileno()).st_size > limit or len(data := file.read(limit + 1)) > limit:
                raise TokenizerError(f"{path.name} is larger than the limit of {limit // MEGABYTE} MB.")
    except OSError as error:
        raise TokenizerError(f"{path.name} cannot be read: {error.strerror or error}.") from error
    return data


def read_text(path: Path, *, limit: int = MAX_VOCABULARY_BYTES) -> str:
    """Read a file as UTF-8 text."""
    try:
        return read_bytes(path, limit=limit).decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path.name} is not UTF-8 text: invalid byte at position {error.start}.") from error


def parse_json_object(text: str, name: str) -> dict[str, Any]:
    """Parse JSON text that must be an object."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise TokenizerError(f"{name} is nested too deeply to be a tokenizer file.") from None
    except ValueError as error:
        raise TokenizerError(f"{name} is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise TokenizerError(f"{name} must contain a JSON object, got {type(value).__name__}.")
    return value


def read_json_object(path: Path, *, limit: int = MAX_VOCABULARY_BYTES) -> dict[str, Any]:
    """Read a JSON file that must be an object."""
    return parse_json_object(read_text(path, limit=limit), path.name)


def read_optional_json(path: Path) -> dict[str, Any]:
    """Read a JSON settings file; return an empty dict if it does not exist."""
    return read_json_object(path, limit=MAX_SETTINGS_BYTES) if path.is_file() else {}


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file atomically: to a temporary file that is then renamed."""
    with atomic_file(path) as file:
        file.write(data)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object with indentation and sorted keys."""
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    # unpaired surrogates are valid in JSON escapes but not in UTF-8
    if any("\ud800" <= character <= "\udfff" for character in text):
        text = json.dumps(value, indent=2, sort_keys=True)
    write_atomic(path, (text + "\n").encode())


@contextmanager
def wrap_library_errors(message: str) -> Iterator[None]:
    """Convert exceptions and panics of the Rust library to a TokenizerError."""
    try:
        yield
    except ClearheadError:
        raise
    except Exception as error:
        raise TokenizerError(f"{message}: {_summarize_error(error)}.") from error
    except BaseException as error:
        # A Rust panic is raised as pyo3_runtime.PanicException, a BaseException that cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise TokenizerError(f"{message}: the tokenizers library panicked ({_summarize_error(error)}).") from None


def _summarize_error(error: BaseException) -> str:
    return to_printable(" ".join(str(error).split()).rstrip(".") or type(error).__name__, 300)
