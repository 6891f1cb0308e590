"""Stores the finished runs of a long benchmark as JSON lines, so that a rerun skips them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def read_records(path: Path, keys: Sequence[str]) -> dict[Any, Record]:
    """Read the stored runs by the values of some keys; a line that was truncated by a kill is skipped."""
    records = {}
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        records[tuple(record[key] for key in keys)] = record
    return records


def append_record(path: Path, record: Record) -> None:
    """Append a run on its own line, even if the last line was truncated."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        ends_with_newline = not path.stat().st_size or path.read_bytes().endswith(b"\n")
        file.write(("" if ends_with_newline else "\n") + json.dumps(record) + "\n")
