"""The machine of a run: CPU, library versions and thread pools.

`cpu` describes what bit-exact results depend on, which is checked when a run resumes; `threads` sizes thread pools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.machine.cpu import Machine, base_machine, engine_versions, library_versions, list_differences
    from clearhead.machine.threads import (
        get_max_threads,
        limit_blas,
        limit_threads,
        load_torch,
        passive_waiting,
    )
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "cpu": ("Machine", "base_machine", "list_differences", "engine_versions", "library_versions"),
            "threads": (
                "limit_blas",
                "limit_threads",
                "load_torch",
                "get_max_threads",
                "passive_waiting",
            ),
        },
    )

__all__ = [
    "Machine",
    "base_machine",
    "engine_versions",
    "get_max_threads",
    "library_versions",
    "limit_blas",
    "limit_threads",
    "list_differences",
    "load_torch",
    "passive_waiting",
]
