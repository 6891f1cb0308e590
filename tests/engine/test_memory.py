"""Weights are shared: no session copies them, and pages that are no longer needed are released."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from clearhead.checkpoint.weights import MappedTensors, read_header, release_pages, write_safetensors
from clearhead.engine.graph import Graph
from clearhead.engine.session import Session

ROLLUP = Path("/proc/self/smaps_rollup")
pytestmark = pytest.mark.skipif(not ROLLUP.exists(), reason=f"needs Linux's {ROLLUP}; this is {sys.platform}")
ROWS, WIDTH = 1 << 16, 256  # 64 MB


def memory_usage(kind: str) -> float:
    """Return the memory of this process in MB: Rss or Anonymous."""
    match = re.search(rf"^{kind}:\s+(\d+)", ROLLUP.read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1]) / 1024


def test_a_session_reads_a_table_where_it_lies() -> None:
    table = np.ones((ROWS, WIDTH), np.float32)
    g = Graph()
    ids = g.input("ids", "int64", ("words",))
    g.output("rows", g.add("Gather", g.weight("table", table), ids), ("words", WIDTH))
    Session(g).run({"ids": np.zeros(1, np.int64)})  # the library itself is in memory now
    before = memory_usage("Anonymous")
    sessions = [Session(g) for _ in range(3)]
    assert memory_usage("Anonymous") - before < 32
    table[5] = 7.0  # no copy: a change is seen
    assert all((session.run({"ids": np.array([5])})["rows"] == 7.0).all() for session in sessions)


def test_pages_of_a_file_are_given_back_and_come_again(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"one": np.full((ROWS, WIDTH), 3.0, np.float32)})
    array = MappedTensors(read_header(path), writable=False).array("one")
    assert float(array.sum()) == 3.0 * ROWS * WIDTH
    before = memory_usage("Rss")
    release_pages([array[1:], array])  # a view leads to the same file
    assert before - memory_usage("Rss") > 32
    assert float(array.sum()) == 3.0 * ROWS * WIDTH


def test_what_was_written_is_never_given_back(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"one": np.zeros((8, 4096), np.float32)})
    array = MappedTensors(read_header(path)).array("one")
    array[:] = 1.0
    release_pages([array, np.ones(3)])
    assert (array == 1.0).all()
