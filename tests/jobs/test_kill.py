"""A run that is killed with -9 at any instant, and resumed, ends in the same bits as one that was left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_twenty_random_instants() -> None:
    command = [sys.executable, str(REPO / "fuzz" / "kill.py"), "--count", "20", "--seed", "7", "--rows", "100"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 instants" in done.stdout
    assert "0 findings" in done.stdout
    assert "killed in training" in done.stdout
