"""Generated texts as lines of a file or a stream; an incomplete file is resumed after its last complete line."""

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
class OutputSummary:
    """Number of texts written, and the output file."""

    output: Path | None  # None: an open stream
    texts: int  # including those of an interrupted job
    resumed: int

    def __repr__(self) -> str:
        return short_repr("OutputSummary", f"{self.texts:,} texts", self.output)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        output = None if self.output is None else str(self.output)
        return {"texts": self.texts, "resumed": self.resumed, "output": output}


@contextmanager
def open_output(
    output: Path | IO[str],
    job: object,
    *,
    as_json: bool,
    ranked: bool = False,
    notify: Callable[[str], None] | None = None,
) -> Iterator[tuple[IO[str], int]]:
    """Open the output, and return it with the number of texts that an interrupted job has already written.

    Lines are written to a partial file, which the same `job` resumes, and which is renamed when it is complete. With
    `ranked`, a text has several lines. An existing file is never changed.
    """
    if not isinstance(output, Path):
        yield output, 0
        return
    if output.is_file() or output.is_symlink():
        raise InputError(f"Output file {format_path(output)} already exists; remove it, or choose another name.")
    with explain_write_errors(output):
        if output.exists():  # a device or a pipe
            with output.open("a", encoding="utf-8") as stream:
                yield stream, 0
            return
        partial, job_file = partial_paths(output)
        job_hash = hashlib.sha256(repr(job).encode("utf-8", "surrogatepass")).hexdigest()
        if _read_job(job_file) != job_hash:  # of another job, or not of a job
            remove_file(job_file)
            remove_file(partial)
        done = _truncate_to_ranked_lines(partial) if ranked else _truncate_to_lines(partial, as_json=as_json)
        if done and notify is not None:
            notify(f"resuming {output} after {done:,} lines")
        write_json(job_file, {"job": job_hash})
        with partial.open("a", encoding="utf-8") as stream:
            yield stream, done
            stream.flush()
            os.fsync(stream.fileno())
        remove_file(job_file)
        partial.replace(output)


def identify_source(source: object) -> object:
    """Return a key that identifies the texts of a job: a name, or a random key if there is none."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    if callable(getattr(source, "read", None)):
        return "-"
    return os.urandom(16)


def format_json_line(value: object, stream: IO[str]) -> str:
    """Format one line of JSON: unescaped if the stream is UTF-8, else with ASCII escapes."""
    line = json.dumps(value, ensure_ascii=False)
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "")
    try:
        if encoding in ("utf8", "utf8sig"):
            line.encode()
            return f"{line}\n"
    except UnicodeEncodeError:  # a lone surrogate, which JSON can represent and UTF-8 cannot
        pass
    return f"{json.dumps(value)}\n"


def _read_job(job_file: Path) -> object:
    """Read the key of the job of a partial file; None if there is none."""
    try:
        return read_json(job_file).get("job")
    except ClearheadError:
        return None


def _truncate_to_lines(path: Path, *, as_json: bool) -> int:
    """Remove an incomplete line at the end of an output, and return the number of lines."""
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
        raise InputError(f"{path} exists but is not the output of this job; choose another file.") from None
    return count


def _truncate_to_ranked_lines(path: Path) -> int:
    """Remove the last, possibly incomplete group of ranked lines, and return the number of groups before it."""
    if not path.is_file():
        return 0
    last_number = last_start = end = 0
    try:
        with path.open("r+b") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                line_number = int(line.split(b"\t", 1)[0])
                if line_number not in (last_number, last_number + 1) or line_number < 1:
                    raise ValueError
                if line_number != last_number:
                    last_number, last_start = line_number, end
                end += len(line)
            file.truncate(last_start)
    except (OSError, ValueError):
        raise InputError(f"{path} exists but is not the output of this job; choose another file.") from None
    return max(last_number - 1, 0)
