"""Every writing verb is killed at a few of its file operations; `make fuzz` tries forty per verb."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_every_verb_at_six_points() -> None:
    """Runs in a separate process, because commands are forked and thread pools do not survive a fork."""
    command = [sys.executable, str(REPO / "fuzz" / "crash.py"), "--count", "6"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert completed.stdout.splitlines()[-1] == "180 points: 0 findings"
