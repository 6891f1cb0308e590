"""Which method is worth its cost: several of them trained on the same rows within a time budget.

`job` runs them in turn, `budget` and `estimates` share out the time, `recommend` names the cheapest that is as good as
the best, and `state` lets the same call continue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.ladder.job import LadderJob, LadderPlan
    from clearhead.ladder.methods import budget_seconds, check_choices, chosen_methods, rung_plan
    from clearhead.ladder.result import Ladder
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "job": ("LadderJob", "LadderPlan"),
            "methods": ("budget_seconds", "check_choices", "chosen_methods", "rung_plan"),
            "result": ("Ladder",),
        },
    )

__all__ = [
    "Ladder",
    "LadderJob",
    "LadderPlan",
    "budget_seconds",
    "check_choices",
    "chosen_methods",
    "rung_plan",
]
