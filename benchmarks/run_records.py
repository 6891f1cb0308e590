"""Finished runs of a long benchmark as JSON lines: a rerun skips what is there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def read_records(path: Path, keys: Sequence[str]) -> dict[Any, Record]:
    """The runs that are there, by the values of some keys; a line that was cut off by a kill is none."""
    found = {}
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        found[tuple(record[key] for key in keys)] = record
    return found


def append_record(path: Path, record: Record) -> None:
    """One more run, on a line of its own even where the last one was cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        whole = not path.stat().st_size or path.read_bytes().endswith(b"\n")
        file.write(("" if whole else "\n") + json.dumps(record) + "\n")
