"""A run that is killed with -9 at any instant and resumed is bit-identical to an uninterrupted run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_twenty_random_instants() -> None:
    command = [sys.executable, str(REPO / "fuzz" / "kill.py"), "--count", "20", "--seed", "7", "--rows", "100"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "20 instants" in completed.stdout
    assert "0 findings" in completed.stdout
    assert "killed in training" in completed.stdout
