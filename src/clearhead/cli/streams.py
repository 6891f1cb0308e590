"""Standard streams in any state: closed, full, disconnected, in any encoding. Printing never fails on a character."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from clearhead.errors import ClearheadError, InputError

FILE_OPTIONS = ("-o", "--output", "--report", "--recipe", "--resume")  # followed by a file name


class ClosedStream(io.TextIOBase):
    """Replaces a stream that was closed at start: writing to it raises an error with one sentence."""

    encoding = "utf-8"

    def write(self, text: str) -> NoReturn:  # noqa: ARG002
        """Raise an error."""
        raise ClearheadError("Standard output is closed; open it or redirect it to a file.")

    @property
    def buffer(self) -> ClosedStream:
        """The same stream for bytes."""
        return self


@contextmanager
def usable_streams() -> Iterator[None]:
    """Make all standard streams writable inside this block, and restore them afterwards."""
    out, err = sys.stdout, sys.stderr
    if None in (sys.stdin, out, err):
        _occupy_descriptors()
    if out is None:
        sys.stdout = ClosedStream()
    if err is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    changed = [(stream, stream.errors) for stream in (sys.stdout, sys.stderr) if isinstance(stream, io.TextIOWrapper)]
    for stream, _ in changed:
        stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        for stream, errors in changed:
            with suppress(OSError, ValueError):  # it is full, or has been closed
                stream.reconfigure(errors=errors)
        sys.stdout, sys.stderr = out, err


def _occupy_descriptors() -> None:
    """Open the first three descriptors on the null device, so that no file takes the number of a closed stream."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)


def flush_output() -> None:
    """Flush standard output; an error with one sentence if that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ClearheadError(f"Standard output cannot be written: {error.strerror or error}.") from None


def leave_output() -> None:
    """Redirect standard output to the null device, so that Python does not flush it again at exit."""
    with suppress(OSError, ValueError, AttributeError):
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, sys.stdout.fileno())
        os.close(null_device)


def input_bytes() -> IO[bytes]:
    """Standard input as bytes; an error if it is closed."""
    if sys.stdin is None:
        raise InputError("Standard input is closed.")
    return sys.stdin.buffer


def input_stream() -> IO[Any]:
    """Standard input as bytes, or the text stream that a program has put in its place."""
    return sys.stdin if isinstance(sys.stdin, io.StringIO) else input_bytes()


def decode_arguments(arguments: Sequence[str]) -> list[str]:
    """Arguments as the user typed them: in a C locale, Python passes non-ASCII bytes as surrogates."""
    decoded = []
    for previous, argument in zip(("", *arguments), arguments, strict=False):
        if "\0" in argument:
            raise InputError("An argument contains a NUL character, which neither texts nor file names may contain.")
        is_file_name = previous in FILE_OPTIONS or argument.startswith(FILE_OPTIONS)
        decoded.append(argument if is_file_name else _decode_text(argument))
    return decoded


def _decode_text(argument: str) -> str:
    """Decode UTF-8 bytes that were passed as surrogates, unless the argument is the name of a file."""
    if argument.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in argument):
        return argument
    try:
        return argument if os.path.lexists(argument) else os.fsencode(argument).decode()
    except (OSError, ValueError):
        return argument


def to_json_text(value: Any, stream: IO[str] | None = None) -> str:
    """One line of JSON for a stream (default: stdout); non-ASCII characters are escaped unless it is UTF-8."""
    import json

    line = json.dumps(value, ensure_ascii=False)
    encoding = (getattr(sys.stdout if stream is None else stream, "encoding", None) or "utf-8").lower().replace("-", "")
    try:
        if encoding in ("utf8", "utf8sig"):
            line.encode()
            return line
    except UnicodeEncodeError:  # a lone surrogate, which JSON can represent and UTF-8 cannot
        pass
    return json.dumps(value)


def open_text_files(names: Sequence[str]) -> list[Any]:
    """The files of a command that reads several; - is standard input, once."""
    if not names:
        raise InputError("Name at least one text file, or - for standard input.")
    if names.count("-") > 1:
        raise InputError("Standard input (-) can be read only once.")
    return [input_bytes() if name == "-" else Path(name) for name in names]
