"""Objectives: how the output of a network for a batch becomes one loss per row.

The training loop is independent of them: `objective_for` resolves the name that a task gives, once before the first
step. `pretraining` has the losses of pre-training, which are sums over tokens instead of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.training.objectives.classes import BinaryCrossEntropy, CrossEntropy, SquaredError
    from clearhead.training.objectives.next_token import WithNextToken
    from clearhead.training.objectives.objective import NetworkOutput, Objective
    from clearhead.training.objectives.options import OptionChoice
    from clearhead.training.objectives.pretraining import (
        ElectraPair,
        TargetScores,
        count_targets,
        pretrain_losses,
        score_targets,
    )
    from clearhead.training.objectives.registry import OBJECTIVES, objective_for
    from clearhead.training.objectives.spans import SpanEnds
    from clearhead.training.objectives.tags import WordTags
    from clearhead.training.objectives.words import TargetWords
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "classes": ("BinaryCrossEntropy", "CrossEntropy", "SquaredError"),
            "next_token": ("WithNextToken",),
            "objective": ("NetworkOutput", "Objective"),
            "options": ("OptionChoice",),
            "pretraining": ("ElectraPair", "TargetScores", "count_targets", "pretrain_losses", "score_targets"),
            "registry": ("OBJECTIVES", "objective_for"),
            "spans": ("SpanEnds",),
            "tags": ("WordTags",),
            "words": ("TargetWords",),
        },
    )

__all__ = [
    "OBJECTIVES",
    "BinaryCrossEntropy",
    "CrossEntropy",
    "ElectraPair",
    "NetworkOutput",
    "Objective",
    "OptionChoice",
    "SpanEnds",
    "SquaredError",
    "TargetScores",
    "TargetWords",
    "WithNextToken",
    "WordTags",
    "count_targets",
    "objective_for",
    "pretrain_losses",
    "score_targets",
]
