"""Measuring a trained model on rows whose labels are known.

`evaluate` gives metrics with intervals, `difference` compares two models on the same rows, and `examples` finds the
rows worth reading: the worst answers, suspicious labels and the words that mattered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.evaluate.difference import Asked, Difference, difference
    from clearhead.evaluate.evaluate import Scored, evaluation_report, run_evaluate, scored_part
    from clearhead.evaluate.examples import Second, second_look
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "difference": ("Asked", "Difference", "difference"),
            "evaluate": ("Scored", "evaluation_report", "run_evaluate", "scored_part"),
            "examples": ("Second", "second_look"),
        },
    )

__all__ = [
    "Asked",
    "Difference",
    "Scored",
    "Second",
    "difference",
    "evaluation_report",
    "run_evaluate",
    "scored_part",
    "second_look",
]
