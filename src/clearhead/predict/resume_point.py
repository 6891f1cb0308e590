"""Resume points of output files: how many bytes of an incomplete file are valid, and which job wrote them."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from clearhead.errors import ClearheadError
from clearhead.files import decode_dataclass, read_json

MAX_NAME_BYTES = 240  # of an output's name, which gets a suffix; most file systems allow 255 in total


@dataclass
class RowCounts:
    """Rows read and written so far."""

    rows: int = 0
    read: int = 0  # rows of the source, including bad rows
    truncated: int = 0
    windowed: int = 0
    abstained: int = 0
    lost: int = 0  # truncated tokens, when vectors are written
    skipped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ResumePoint:
    """How many bytes of an incomplete file are valid, and what they contain."""

    key: str  # identifies the job
    bytes: int
    counts: RowCounts
    seal: str = ""  # hash of the other fields, which detects damage

    def with_seal(self) -> ResumePoint:
        """Return a copy with a computed seal."""
        values = asdict(replace(self, seal=""))
        return replace(self, seal=hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest())


def partial_paths(output: Path) -> tuple[Path, Path]:
    """Return the paths of an incomplete output file and of its resume point."""
    name = output.name
    if len(os.fsencode(name)) > MAX_NAME_BYTES:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return output.with_name(f"{name}.partial"), output.with_name(f"{name}.partial.json")


def describe_file_state(path: Path) -> tuple[str, int, int]:
    """Return what changes when a file is changed: path, size and modification time."""
    status = path.stat()
    return str(path.resolve()), status.st_size, status.st_mtime_ns


def read_resume_point(partial: Path, path: Path, key: str) -> ResumePoint | None:
    """Read the resume point of an interrupted job; None if it is missing, damaged or belongs to another job."""
    if not (partial.is_file() and path.is_file()):
        return None
    try:
        point = decode_dataclass(read_json(path), ResumePoint, path.name)
    except ClearheadError:
        return None
    is_valid = point == point.with_seal() and point.key == key and point.bytes <= partial.stat().st_size
    return point if is_valid else None
