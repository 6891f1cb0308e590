"""The memory that a run is predicted to take: with the program itself, and more for longer texts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.training import process_memory
from tests.small import labelled, tiny_model


def test_the_peak_begins_anew() -> None:
    before = process_memory.read_resident()
    if before is None:
        pytest.skip("this system does not tell")
    held = torch.ones(40 << 20)  # 160 MB
    del held
    assert (process_memory.read_peak() or 0) >= before + (150 << 20)
    process_memory.reset_peak()
    now = process_memory.read_resident()
    assert now is not None
    if (process_memory.read_peak() or 0) > now + (50 << 20):
        pytest.skip("this system does not let the peak begin anew")
    assert torch.ones(40 << 20).all()
    assert (process_memory.read_peak() or 0) >= now + (150 << 20)


def test_the_program_itself_counts(tmp_path: Path) -> None:
    model = str(tiny_model(tmp_path / "tiny"))
    found = clearhead.inspect(labelled(60), model=model).estimate
    assert found is not None
    assert found["memory_mb"] * 1e6 >= 0.9 * (process_memory.read_resident() or 100e6)


def test_long_texts_take_more(tmp_path: Path) -> None:
    model = str(tiny_model(tmp_path / "tiny"))
    rows = labelled(60)
    longer = [{**row, "text": " ".join([row["text"]] * 40)} for row in rows]
    short, long = (clearhead.inspect(some, model=model).estimate for some in (rows, longer))
    assert short is not None
    assert long is not None
    assert long["memory_mb"] > short["memory_mb"]
