"""Which method is worth its cost: several of them trained on the same rows within a time budget.

`job` runs them in turn, `budget` and `estimates` share out the time, `recommend` names the cheapest that is as good as
the best, and `state` lets the same call continue.
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
