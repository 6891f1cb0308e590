"""How much memory this process holds, and the most that it held since a moment; where the system tells it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

STATUS_FILE, CLEAR_REFS_FILE = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def read_resident() -> int | None:
    """Bytes of memory now; None where the system does not tell."""
    return _read_field("VmRSS")


def reset_peak() -> None:
    """Let `peak` begin anew; where the system refuses, it counts from the beginning of the process."""
    with suppress(OSError):
        descriptor = os.open(CLEAR_REFS_FILE, os.O_WRONLY)
        try:
            os.write(descriptor, b"5")  # resets VmHWM
        finally:
            os.close(descriptor)


def read_peak() -> int | None:
    """The most bytes of memory since `forget_peak`."""
    return _read_field("VmHWM")


def _read_field(name: str) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in STATUS_FILE.read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return None
