"""The memory estimate of a run includes the program itself and grows with the length of the texts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.training import process_memory
from tests.tiny_models import make_sentiment_rows, tiny_model


def test_the_peak_can_be_reset() -> None:
    resident_before = process_memory.read_resident()
    if resident_before is None:
        pytest.skip("this system does not report memory")
    block = torch.ones(40 << 20)  # 160 MB
    del block
    assert (process_memory.read_peak() or 0) >= resident_before + (150 << 20)
    process_memory.reset_peak()
    resident = process_memory.read_resident()
    assert resident is not None
    if (process_memory.read_peak() or 0) > resident + (50 << 20):
        pytest.skip("this system cannot reset the peak")
    assert torch.ones(40 << 20).all()
    assert (process_memory.read_peak() or 0) >= resident + (150 << 20)


def test_the_program_itself_counts(tmp_path: Path) -> None:
    model = str(tiny_model(tmp_path / "tiny"))
    estimate = clearhead.inspect(make_sentiment_rows(60), model=model).estimate
    assert estimate is not None
    assert estimate["memory_mb"] * 1e6 >= 0.9 * (process_memory.read_resident() or 100e6)


def test_long_texts_take_more(tmp_path: Path) -> None:
    model = str(tiny_model(tmp_path / "tiny"))
    rows = make_sentiment_rows(60)
    long_rows = [{**row, "text": " ".join([row["text"]] * 40)} for row in rows]
    short, long = (clearhead.inspect(dataset, model=model).estimate for dataset in (rows, long_rows))
    assert short is not None
    assert long is not None
    assert long["memory_mb"] > short["memory_mb"]
