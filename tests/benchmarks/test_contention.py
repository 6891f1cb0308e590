"""The contention benchmark: shares relative to the yardstick, and jobs below the target."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import contention
import pytest


def job(name: str, alone: float, next_to_one: float, next_to_two: float, *, spinning: bool = False) -> Any:
    speeds = {0: [alone] * 5, 1: [next_to_one] * 5, 2: [next_to_two] * 5}
    return SimpleNamespace(name=name, spinning=spinning, speeds=speeds)


def test_a_share_is_against_the_yardstick() -> None:
    yardstick = job("yardstick", 300.0, 200.0, 150.0)
    fair = job("fair", 30.0, 20.0, 15.0)
    assert contention.compute_shares(fair.speeds, yardstick.speeds, 1) == pytest.approx([1.0] * 5)
    half = job("half", 30.0, 10.0, 7.5)
    assert contention.compute_shares(half.speeds, yardstick.speeds, 2) == pytest.approx([0.5] * 5)


def test_jobs_below_the_target_are_listed() -> None:
    yardstick = job("yardstick", 300.0, 200.0, 150.0)
    jobs = [
        job("good", 30.0, 20.0, 10.0),
        job("bad", 30.0, 20.0, 7.5),
        job("good", 30.0, 1.0, 1.0, spinning=True),
    ]
    lines, failed = contention.make_table(jobs, yardstick)
    assert failed == ["bad next to 2: 0.50 of its fair share"]
    assert len(lines) == 6
    assert "good, spinning" in lines[3]


def test_a_job_works_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "CORES", 2)
    yardstick = contention.MeasuredJob("yardstick")
    try:
        assert len(yardstick.processes) == 2
        assert yardstick.measure(0.01) > 0
    finally:
        yardstick.close()
    monkeypatch.setattr(sys, "argv", ["contention.py", "--jobs", "nothing"])
    with pytest.raises(SystemExit, match="unknown job nothing"):
        contention.main()
