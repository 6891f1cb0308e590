"""A number."""

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
    """A number."""

    value: float | None = None

    leading: ClassVar[tuple[str, ...]] = ("value",)

    def summary(self) -> list[str]:
        """The number."""
        return [] if self.value is None else [f"value={round(self.value, 4)}"]

    def columns(self) -> dict[str, Any]:
        """The number as the prediction."""
        return {"prediction": round_probability(self.value), **Answer.columns(self)}


def build(answers: Answers, place: int, row: TextRow, space: LabelSpace, best: int, common: dict[str, Any]) -> Answer:
    """A number has no probability."""
    kept = {name: value for name, value in common.items() if name != "probability"}
    return NumberAnswer(value=float(answers.labels[place]), **kept)


def columns(read: Columns, names: tuple[str, ...]) -> tuple[str, ...]:
    """The prediction, and what was cut."""
    return ("prediction", "truncated", "windows")


NUMBER_ANSWERS = AnswerCodec(
    build=build,
    answer_types=(NumberAnswer,),
    purpose="gives a text a number",
    model_kind="regressor",
    columns=columns,
    no_probabilities_reason="answers with numbers, which have no probabilities",
)
