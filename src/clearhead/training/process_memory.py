"""How much memory this process holds, and the most that it held since a moment; where the system tells it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident() -> int | None:
    """Bytes of memory now; None where the system does not tell."""
    return _field("VmRSS")


def forget_peak() -> None:
    """Let `peak` begin anew; where the system refuses, it counts from the beginning of the process."""
    with suppress(OSError):
        descriptor = os.open(CLEAR, os.O_WRONLY)
        try:
            os.write(descriptor, b"5")  # resets VmHWM
        finally:
            os.close(descriptor)


def peak() -> int | None:
    """The most bytes of memory since `forget_peak`."""
    return _field("VmHWM")


def _field(name: str) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in STATUS.read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return None
