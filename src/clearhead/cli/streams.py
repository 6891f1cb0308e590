"""Standard streams as they come: closed, full, torn off, in any encoding; text for people never fails on a letter."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from clearhead.errors import ClearheadError, InputError

NAMES = ("-o", "--output", "--report", "--recipe", "--resume")  # what follows is the name of a file


class Closed(io.TextIOBase):
    """Stands for a stream that was closed before we began: writing to it is an error in one sentence."""

    encoding = "utf-8"

    def write(self, text: str) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        raise ClearheadError("Standard output is closed, and the answer goes there: open it, or send it to a file.")

    @property
    def buffer(self) -> Closed:
        """The same for bytes."""
        return self


@contextmanager
def any_streams() -> Iterator[None]:
    """Streams that can be written to, whatever they were; afterwards they are as they were."""
    out, err = sys.stdout, sys.stderr
    if None in (sys.stdin, out, err):
        _occupy()
    if out is None:
        sys.stdout = Closed()
    if err is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    changed = [(stream, stream.errors) for stream in (sys.stdout, sys.stderr) if isinstance(stream, io.TextIOWrapper)]
    for stream, _ in changed:
        stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        for stream, errors in changed:
            with suppress(OSError, ValueError):  # it is full, or closed by now
                stream.reconfigure(errors=errors)
        sys.stdout, sys.stderr = out, err


def _occupy() -> None:
    """Open the first three descriptors on nothing, so that no file of ours takes the place of a closed stream."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)


def flush_output() -> None:
    """Bring the answer to its reader; one sentence where that is not possible."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ClearheadError(f"Standard output cannot be written: {error.strerror or error}.") from None


def leave_output() -> None:
    """Let nobody try again to write what could not be written."""
    with suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


def input_bytes() -> IO[bytes]:
    """Standard input; one sentence where it is closed."""
    if sys.stdin is None:
        raise InputError("Standard input is closed, so that nothing can be read from it.")
    return sys.stdin.buffer


def input_stream() -> IO[Any]:
    """Standard input for texts as they come: bytes, or what a program put in its place."""
    return sys.stdin if isinstance(sys.stdin, io.StringIO) else input_bytes()


def typed(arguments: Sequence[str]) -> list[str]:
    """Arguments as they were typed: in a C locale Python hands letters beyond ASCII over as bytes in disguise."""
    made = []
    for before, argument in zip(("", *arguments), arguments, strict=False):
        if "\0" in argument:
            raise InputError("An argument holds a NUL character, which neither a text nor the name of a file has.")
        named = before in NAMES or argument.startswith(NAMES)
        made.append(argument if named else _text(argument))
    return made


def _text(argument: str) -> str:
    """UTF-8 in disguise as text, unless it is the name of a file."""
    if argument.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in argument):
        return argument
    try:
        return argument if os.path.lexists(argument) else os.fsencode(argument).decode()
    except (OSError, ValueError):
        return argument


def json_text(value: Any, into: IO[str] | None = None) -> str:
    """One line of JSON for a stream: letters as they are where it takes UTF-8, and escaped anywhere else."""
    import json

    line = json.dumps(value, ensure_ascii=False)
    encoding = (getattr(sys.stdout if into is None else into, "encoding", None) or "utf-8").lower().replace("-", "")
    try:
        if encoding in ("utf8", "utf8sig"):
            line.encode()
            return line
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can hold and UTF-8 cannot
        pass
    return json.dumps(value)
