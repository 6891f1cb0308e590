"""Evaluation of trained models on labeled rows.

`run_evaluate` computes metrics with confidence intervals, `measure_difference` compares two models on the same rows,
and `examples` selects rows for error analysis: the worst predictions, suspicious labels, and the most relevant words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.evaluate.difference import Comparison, Difference, measure_difference
    from clearhead.evaluate.evaluate import ScoredRows, run_evaluate, save_evaluation_report, score_part
    from clearhead.evaluate.examples import ErrorAnalysis, analyze_errors
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "difference": ("Comparison", "Difference", "measure_difference"),
            "evaluate": ("ScoredRows", "save_evaluation_report", "run_evaluate", "score_part"),
            "examples": ("ErrorAnalysis", "analyze_errors"),
        },
    )

__all__ = [
    "Comparison",
    "Difference",
    "ErrorAnalysis",
    "ScoredRows",
    "analyze_errors",
    "measure_difference",
    "run_evaluate",
    "save_evaluation_report",
    "score_part",
]
