"""The registry of objectives by the names that tasks use."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from clearhead.training.objectives.classes import BinaryCrossEntropy, CrossEntropy, SquaredError
from clearhead.training.objectives.multiple_choice import ChoiceCrossEntropy
from clearhead.training.objectives.next_token import WithNextToken
from clearhead.training.objectives.objective import Objective
from clearhead.training.objectives.seq2seq import Seq2SeqCrossEntropy
from clearhead.training.objectives.spans import SpanCrossEntropy
from clearhead.training.objectives.tags import TagCrossEntropy
from clearhead.training.settings import TrainSettings

# constructors by name; the argument is the label smoothing
OBJECTIVES: Mapping[str, Callable[[float], Objective]] = {
    "cross_entropy": CrossEntropy,
    "binary": BinaryCrossEntropy,
    "squared": lambda _: SquaredError(),
    "tags": TagCrossEntropy,
    "spans": lambda _: SpanCrossEntropy(),
    "options": ChoiceCrossEntropy,
    "words": Seq2SeqCrossEntropy,
}


def objective_for(name: str, settings: TrainSettings) -> Objective:
    """The objective of a task, with the label smoothing and the auxiliary next-token loss of the settings."""
    objective = OBJECTIVES[name](settings.label_smoothing)
    return WithNextToken(objective, settings.lm_weight) if settings.lm_weight else objective
