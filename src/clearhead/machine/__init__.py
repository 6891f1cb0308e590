"""The machine that computes: CPU, library versions and thread pools.

`cpu` describes it, so that a resumed run can tell whether its bits can be reproduced; `threads` sizes thread pools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.machine.cpu import Machine, base_machine, differences, engine_version, versions
    from clearhead.machine.threads import (
        limit_blas,
        limit_threads,
        load_torch,
        most_threads,
        passive_waiting,
    )
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "cpu": ("Machine", "base_machine", "differences", "engine_version", "versions"),
            "threads": (
                "limit_blas",
                "limit_threads",
                "load_torch",
                "most_threads",
                "passive_waiting",
            ),
        },
    )

__all__ = [
    "Machine",
    "base_machine",
    "differences",
    "engine_version",
    "limit_blas",
    "limit_threads",
    "load_torch",
    "most_threads",
    "passive_waiting",
    "versions",
]
