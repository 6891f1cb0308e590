"""Answers of the regress task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.answer import Answer, AnswerCodec, round_probability
from clearhead.tasks.task import Answers


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NumberAnswer(Answer):
    """A predicted number."""

    value: float | None = None

    leading: ClassVar[tuple[str, ...]] = ("value",)

    def summary(self) -> list[str]:
        """The number."""
        return [] if self.value is None else [f"value={round(self.value, 4)}"]

    def columns(self) -> dict[str, Any]:
        """The number as the prediction."""
        return {"prediction": round_probability(self.value), **Answer.columns(self)}


def build_answer(
    answers: Answers, index: int, row: TextRow, space: LabelSpace, max_candidates: int, common: dict[str, Any]
) -> Answer:
    """Build the answer; numbers have no probability."""
    fields = {name: value for name, value in common.items() if name != "probability"}
    return NumberAnswer(value=float(answers.labels[index]), **fields)


def list_columns(columns: Columns, names: tuple[str, ...]) -> tuple[str, ...]:
    """The prediction and truncation."""
    return ("prediction", "truncated", "windows")


NUMBER_ANSWERS = AnswerCodec(
    build=build_answer,
    answer_types=(NumberAnswer,),
    purpose="predicts a number for a text",
    model_kind="regressor",
    columns=list_columns,
    no_probabilities_reason="predicts numbers, which have no probabilities",
)
