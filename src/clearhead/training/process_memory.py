"""The current and the peak memory of this process, on systems that report them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

STATUS_FILE, CLEAR_REFS_FILE = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def read_resident() -> int | None:
    """The resident memory in bytes; None where the system does not report it."""
    return _read_field("VmRSS")


def reset_peak() -> None:
    """Reset the peak; where the system refuses, it stays that of the whole process."""
    with suppress(OSError):
        descriptor = os.open(CLEAR_REFS_FILE, os.O_WRONLY)
        try:
            os.write(descriptor, b"5")  # resets VmHWM
        finally:
            os.close(descriptor)


def read_peak() -> int | None:
    """The peak memory in bytes since `reset_peak`; None where the system does not report it."""
    return _read_field("VmHWM")


def _read_field(name: str) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in STATUS_FILE.read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return None
