"""Compare training methods on the same rows within a time budget, and recommend one.

`job` trains and measures each method, `budget` and `estimates` allocate the time, `recommend` picks the cheapest method
that is about as good as the best, and `state` stores progress so that the same call resumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.ladder.job import LadderJob, LadderPlan
    from clearhead.ladder.methods import check_choices, parse_budget, parse_methods, plan_method
    from clearhead.ladder.result import Ladder
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "job": ("LadderJob", "LadderPlan"),
            "methods": ("parse_budget", "check_choices", "parse_methods", "plan_method"),
            "result": ("Ladder",),
        },
    )

__all__ = [
    "Ladder",
    "LadderJob",
    "LadderPlan",
    "check_choices",
    "parse_budget",
    "parse_methods",
    "plan_method",
]
