"""Answers of the classify task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.answer import Answer, AnswerCodec, round_probability
from clearhead.tasks.task import Answers


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LabelAnswer(Answer):
    """A single label."""

    label: str | None = None  # None: abstained
    probability: float | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)

    leading: ClassVar[tuple[str, ...]] = ("label", "probability", "probabilities")

    def summary(self) -> list[str]:
        """The label."""
        return [] if self.label is None else [f"label={self.label}"]

    def columns(self) -> dict[str, Any]:
        """The label as the prediction."""
        return {"prediction": self.label, "probability": round_probability(self.probability), **Answer.columns(self)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LabelsAnswer(Answer):
    """Any number of labels."""

    labels: tuple[str, ...] | None = None  # None: abstained
    probability: float | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)

    leading: ClassVar[tuple[str, ...]] = ("labels", "probability", "probabilities")

    def summary(self) -> list[str]:
        """The labels."""
        return [] if self.labels is None else [f"labels={', '.join(self.labels)}"]

    def columns(self) -> dict[str, Any]:
        """The labels as the prediction."""
        labels = None if self.labels is None else list(self.labels)
        return {"prediction": labels, "probability": round_probability(self.probability), **Answer.columns(self)}


def build_answer(
    answers: Answers, index: int, row: TextRow, space: LabelSpace, max_candidates: int, common: dict[str, Any]
) -> Answer:
    """Build the answer: the most probable label, or all labels above their thresholds."""
    predicted = answers.labels[index]
    probabilities = dict(zip(space.names, (float(p) for p in answers.probs[index]), strict=True))
    abstained = common["abstained"]
    if space.kind == "classes":
        label = None if abstained else space.names[int(predicted)]
        return LabelAnswer(label=label, probabilities=probabilities, **common)
    labels = (
        None
        if abstained
        else tuple(name for name, is_predicted in zip(space.names, predicted, strict=True) if is_predicted)
    )
    return LabelsAnswer(labels=labels, probabilities=probabilities, **common)


def list_columns(columns: Columns, names: tuple[str, ...]) -> tuple[str, ...]:
    """The prediction, its probability, and truncation."""
    return ("prediction", "probability", "truncated", "windows")


LABEL_ANSWERS = AnswerCodec(
    build=build_answer,
    answer_types=(LabelAnswer, LabelsAnswer),
    purpose="labels texts",
    model_kind="classifier",
    columns=list_columns,
    probability_columns=lambda space, columns: space.names,
)
