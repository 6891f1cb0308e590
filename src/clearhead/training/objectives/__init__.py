"""Objectives: values that turn what a network answers for a batch into one loss per row.

The training loop knows none of them by name: `objective_for` resolves a task's name once, before the first step.
`pretraining` holds the losses of pre-training, which are sums over tokens, not rows.
"""

from clearhead.training.objectives.classes import BinaryCrossEntropy, CrossEntropy, SquaredError
from clearhead.training.objectives.next_token import WithNextToken
from clearhead.training.objectives.objective import NetworkOutput, Objective
from clearhead.training.objectives.options import OptionChoice
from clearhead.training.objectives.registry import OBJECTIVES, objective_for
from clearhead.training.objectives.spans import SpanEnds
from clearhead.training.objectives.tags import WordTags
from clearhead.training.objectives.words import TargetWords

__all__ = [
    "OBJECTIVES",
    "BinaryCrossEntropy",
    "CrossEntropy",
    "NetworkOutput",
    "Objective",
    "OptionChoice",
    "SpanEnds",
    "SquaredError",
    "TargetWords",
    "WithNextToken",
    "WordTags",
    "objective_for",
]
