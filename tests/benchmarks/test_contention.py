"""The benchmark beside busy processes: what a share is, and what is below the promise."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import contention
import pytest


def job(name: str, alone: float, one: float, two: float, *, spinning: bool = False) -> Any:
    speeds = {0: [alone] * 5, 1: [one] * 5, 2: [two] * 5}
    return SimpleNamespace(name=name, spinning=spinning, speeds=speeds)


def test_a_share_is_against_the_yardstick() -> None:
    yardstick = job("yardstick", 300.0, 200.0, 150.0)
    fair = job("fair", 30.0, 20.0, 15.0)
    assert contention.shares(fair.speeds, yardstick.speeds, 1) == pytest.approx([1.0] * 5)
    half = job("half", 30.0, 10.0, 7.5)
    assert contention.shares(half.speeds, yardstick.speeds, 2) == pytest.approx([0.5] * 5)


def test_what_is_below_the_promise_fails() -> None:
    yardstick = job("yardstick", 300.0, 200.0, 150.0)
    jobs = [
        job("good", 30.0, 20.0, 10.0),
        job("bad", 30.0, 20.0, 7.5),
        job("good", 30.0, 1.0, 1.0, spinning=True),
    ]
    lines, failed = contention.table(jobs, yardstick)
    assert failed == ["bad beside 2: 0.50 of its fair share"]
    assert len(lines) == 6
    assert "good, spinning" in lines[3]


def test_a_job_works_when_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "CORES", 2)
    made = contention.Job("yardstick")
    try:
        assert len(made.processes) == 2
        assert made.take(0.01) > 0
    finally:
        made.close()
    monkeypatch.setattr(sys, "argv", ["contention.py", "--jobs", "nothing"])
    with pytest.raises(SystemExit, match="no job nothing"):
        contention.main()
