"""Answers of the choice task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.answer import Answer, AnswerCodec, round_probability
from clearhead.tasks.choice.rows import name_option
from clearhead.tasks.task import Answers

PROBABILITIES_COLUMN = "probabilities"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ChoiceAnswer(Answer):
    """The chosen option."""

    label: str | None = None  # name in the notation of the labels; None: abstained
    probability: float | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)  # of all options in order
    option: int | None = None

    leading: ClassVar[tuple[str, ...]] = ("label", "probability", "probabilities")

    def summary(self) -> list[str]:
        """The name of the option."""
        return [] if self.label is None else [f"label={self.label}"]

    def columns(self) -> dict[str, Any]:
        """The chosen option as the prediction, and the probabilities of all options."""
        probabilities = [round_probability(probability) for probability in self.probabilities.values()]
        cells = {
            "prediction": self.label,
            "probability": round_probability(self.probability),
            PROBABILITIES_COLUMN: probabilities,
        }
        return {**cells, **Answer.columns(self)}

    def with_option_names(self, options: Sequence[str]) -> ChoiceAnswer:
        """The answer with the texts of the options as their names; unchanged if two texts are equal."""
        if len(set(options)) < len(options) or self.option is None:
            return self
        probabilities = dict(zip(options, self.probabilities.values(), strict=True))
        return replace(self, label=None if self.label is None else options[self.option], probabilities=probabilities)


def build_answer(
    answers: Answers, index: int, row: TextRow, space: LabelSpace, max_candidates: int, common: dict[str, Any]
) -> Answer:
    """Build the answer; the option is named in the notation of the labels."""
    option = int(answers.labels[index])
    probs = answers.probs[index][: len(row.extra.texts)]
    names = [name_option(position, row.extra, space.scheme) for position in range(len(probs))]
    label = None if common["abstained"] else names[option]
    is_unique = len(set(names)) == len(names)  # the texts of two options can be equal
    keys = names if is_unique else [f"{position}: {name}" for position, name in enumerate(names)]
    probabilities = {key: float(probability) for key, probability in zip(keys, probs, strict=True)}
    return ChoiceAnswer(label=label, option=option, probabilities=probabilities, **common)


def list_columns(columns: Columns, names: tuple[str, ...]) -> tuple[str, ...]:
    """The chosen option and the probabilities of all options."""
    return ("prediction", "probability", PROBABILITIES_COLUMN, "truncated", "windows")


OPTION_ANSWERS = AnswerCodec(
    build=build_answer,
    answer_types=(ChoiceAnswer,),
    purpose="chooses among options",
    model_kind="multiple choice model",
    columns=list_columns,
    probability_columns=lambda space, columns: columns.options if len(columns.options) >= 2 else (),
    no_probabilities_reason=f"lists the {PROBABILITIES_COLUMN} of all options in one column",
    has_nested_cells=True,
)
