"""Every verb that writes, killed at a few of its file operations; `make fuzz` tries forty of each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_every_verb_at_six_points() -> None:
    """In a process of its own: the commands are forked, and pools of threads do not survive a fork."""
    command = [sys.executable, str(REPO / "fuzz" / "crash.py"), "--count", "6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "180 points: 0 findings"
