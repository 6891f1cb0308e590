"""Objectives: how the output of a network for a batch becomes one loss per row.

The training loop is independent of them: `objective_for` resolves the name that a task gives, once before the first
step. `pretraining` has the losses of pre-training, which are sums over tokens instead of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.training.objectives.classes import BinaryCrossEntropy, CrossEntropy, SquaredError
    from clearhead.training.objectives.multiple_choice import ChoiceCrossEntropy
    from clearhead.training.objectives.next_token import WithNextToken
    from clearhead.training.objectives.objective import NetworkOutput, Objective
    from clearhead.training.objectives.pretraining import (
        ElectraPair,
        TargetScores,
        compute_pretrain_losses,
        count_targets,
        score_targets,
    )
    from clearhead.training.objectives.registry import OBJECTIVES, objective_for
    from clearhead.training.objectives.seq2seq import Seq2SeqCrossEntropy
    from clearhead.training.objectives.spans import SpanCrossEntropy
    from clearhead.training.objectives.tags import TagCrossEntropy
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "classes": ("BinaryCrossEntropy", "CrossEntropy", "SquaredError"),
            "next_token": ("WithNextToken",),
            "objective": ("NetworkOutput", "Objective"),
            "multiple_choice": ("ChoiceCrossEntropy",),
            "pretraining": ("ElectraPair", "TargetScores", "count_targets", "compute_pretrain_losses", "score_targets"),
            "registry": ("OBJECTIVES", "objective_for"),
            "spans": ("SpanCrossEntropy",),
            "tags": ("TagCrossEntropy",),
            "seq2seq": ("Seq2SeqCrossEntropy",),
        },
    )

__all__ = [
    "OBJECTIVES",
    "BinaryCrossEntropy",
    "ChoiceCrossEntropy",
    "CrossEntropy",
    "ElectraPair",
    "NetworkOutput",
    "Objective",
    "Seq2SeqCrossEntropy",
    "SpanCrossEntropy",
    "SquaredError",
    "TagCrossEntropy",
    "TargetScores",
    "WithNextToken",
    "compute_pretrain_losses",
    "count_targets",
    "objective_for",
    "score_targets",
]
