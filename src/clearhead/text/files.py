"""Reading and writing the files of a tokenizer: bounded sizes, one clear sentence when a file is no good."""

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
MAX_VOCABULARY_BYTES = 512 * MEGABYTE  # the largest vocabularies in use (250 000 pieces) take about 20 MB
MAX_SETTINGS_BYTES = 16 * MEGABYTE  # settings; chat templates can make them some hundred kB


def read_bytes(path: Path, *, limit: int = MAX_VOCABULARY_BYTES) -> bytes:
    """The whole file, refused before reading if it is absurdly large."""
    try:
        with path.open("rb") as file:
            # One byte more than allowed: a pipe or a growing file is caught as well as a large one.
            if os.fstat(file.fileno()).st_size > limit or len(data := file.read(limit + 1)) > limit:
                raise TokenizerError(f"{path.name} is larger than {limit // MEGABYTE} MB, which no tokenizer needs")
    except OSError as error:
        raise TokenizerError(f"{path.name} cannot be read: {error.strerror or error}") from error
    return data


def read_text(path: Path, *, limit: int = MAX_VOCABULARY_BYTES) -> str:
    """The whole file as UTF-8 text."""
    try:
        return read_bytes(path, limit=limit).decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path.name} is not UTF-8 text: byte {error.start} cannot be read") from error


def parse_json_object(text: str, name: str) -> dict[str, Any]:
    """JSON text that must be an object."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise TokenizerError(f"{name} is nested too deeply to be a tokenizer file") from None
    except ValueError as error:
        raise TokenizerError(f"{name} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise TokenizerError(f"{name} must hold a JSON object, not a {type(value).__name__}")
    return value


def read_json_object(path: Path, *, limit: int = MAX_VOCABULARY_BYTES) -> dict[str, Any]:
    """A JSON file that must be an object."""
    return parse_json_object(read_text(path, limit=limit), path.name)


def read_optional_json(path: Path) -> dict[str, Any]:
    """A small JSON file of settings, empty when there is none."""
    return read_json_object(path, limit=MAX_SETTINGS_BYTES) if path.is_file() else {}


def write_atomic(path: Path, data: bytes) -> None:
    """Write under another name, flush, rename: nobody ever sees half a file."""
    with atomic_file(path) as file:
        file.write(data)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object, readable by people."""
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    if any("\ud800" <= letter <= "\udfff" for letter in text):  # JSON can hold half a pair, UTF-8 cannot
        text = json.dumps(value, indent=2, sort_keys=True)
    write_atomic(path, (text + "\n").encode())


@contextmanager
def wrap_library_errors(what: str) -> Iterator[None]:
    """Turn whatever the Rust library raises or panics with into one TokenizerError."""
    try:
        yield
    except ClearheadError:
        raise
    except Exception as error:
        raise TokenizerError(f"{what}: {_sentence(error)}") from error
    except BaseException as error:
        # A panic in Rust arrives as pyo3_runtime.PanicException, a BaseException that cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise TokenizerError(f"{what}: the tokenizer library gave up ({_sentence(error)})") from None


def _sentence(error: BaseException) -> str:
    return to_printable(" ".join(str(error).split()) or type(error).__name__, 300)
