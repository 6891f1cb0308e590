"""Texts that a model wrote, as lines of a file or a stream; a file is resumed after its last whole line."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from clearhead.errors import ClearheadError, InputError
from clearhead.files import explain_write_errors, format_path, read_json, remove_file, write_json
from clearhead.html import short_repr
from clearhead.predict.resume_point import partial_paths


@dataclass(frozen=True, kw_only=True)
class TextsWritten:
    """What was written, and where."""

    output: Path | None  # None: to an open stream
    texts: int  # with those of an earlier, interrupted job
    resumed: int

    def __repr__(self) -> str:
        return short_repr("TextsWritten", f"{self.texts:,} texts", self.output)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        output = None if self.output is None else str(self.output)
        return {"texts": self.texts, "resumed": self.resumed, "output": output}


@contextmanager
def answers_file(
    output: Path | IO[str],
    job: object,
    *,
    as_json: bool,
    ranked: bool = False,
    notify: Callable[[str], None] | None = None,
) -> Iterator[tuple[IO[str], int]]:
    """Where the answers go, and how many of them a stopped job left there; `ranked` ones take several lines each.

    They are gathered in a partial file, which the same `job` continues, and which gets its name when it is complete. A
    file that exists is never touched.
    """
    if not isinstance(output, Path):
        yield output, 0
        return
    if output.is_file() or output.is_symlink():
        raise InputError(f"Output file {format_path(output)} already exists; remove it, or name another one.")
    with explain_write_errors(output):
        if output.exists():  # a device or a pipe
            with output.open("a", encoding="utf-8") as into:
                yield into, 0
            return
        partial, mark = partial_paths(output)
        key = hashlib.sha256(repr(job).encode("utf-8", "surrogatepass")).hexdigest()
        if _job_of(mark) != key:  # of another job, or of none
            remove_file(mark)
            remove_file(partial)
        done = _ranked_done(partial) if ranked else _lines_done(partial, as_json=as_json)
        if done and notify is not None:
            notify(f"{done:,} lines of {output} are there already; going on after them")
        write_json(mark, {"job": key})
        with partial.open("a", encoding="utf-8") as into:
            yield into, done
            into.flush()
            os.fsync(into.fileno())
        remove_file(mark)
        partial.replace(output)


def source_key(source: object) -> object:
    """What tells the texts of one job from those of another: a name, or nothing that comes twice."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    if callable(getattr(source, "read", None)):
        return "-"
    return os.urandom(16)


def json_line(value: object, stream: IO[str]) -> str:
    """One line of JSON: letters as they are where the stream takes UTF-8, and escaped anywhere else."""
    line = json.dumps(value, ensure_ascii=False)
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "")
    try:
        if encoding in ("utf8", "utf8sig"):
            line.encode()
            return f"{line}\n"
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can hold and UTF-8 cannot
        pass
    return f"{json.dumps(value)}\n"


def _job_of(mark: Path) -> object:
    """Which job a partial file belongs to; None where nothing says it."""
    try:
        return read_json(mark).get("job")
    except ClearheadError:
        return None


def _lines_done(path: Path, *, as_json: bool) -> int:
    """How many lines of an output are whole; half a line at its end is cut off."""
    if not path.is_file():
        return 0
    try:
        with path.open("r+b") as file:
            count, end = 0, 0
            for line in file:
                if not line.endswith(b"\n"):
                    break
                if as_json:
                    json.loads(line)
                count, end = count + 1, end + len(line)
            file.truncate(end)
    except (OSError, ValueError):
        raise InputError(f"{path} is there and is not the output of this job; name another file.") from None
    return count


def _ranked_done(path: Path) -> int:
    """How many lines of a source have all their ranked translations in an output; the last one is made again."""
    if not path.is_file():
        return 0
    number = begun = end = 0
    try:
        with path.open("r+b") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                now = int(line.split(b"\t", 1)[0])
                if now not in (number, number + 1) or now < 1:
                    raise ValueError
                if now != number:
                    number, begun = now, end
                end += len(line)
            file.truncate(begun)
    except (OSError, ValueError):
        raise InputError(f"{path} is there and is not the output of this job; name another file.") from None
    return max(number - 1, 0)
