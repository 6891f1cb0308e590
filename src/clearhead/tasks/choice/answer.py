"""One of several options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.answer import Answer, AnswerCodec, round_probability
from clearhead.tasks.choice.rows import name_of
from clearhead.tasks.task import Answers

PROBABILITIES = "probabilities"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ChoiceAnswer(Answer):
    """The option that is taken."""

    label: str | None = None  # what it is called, as labels are written; None: abstained
    probability: float | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)  # of all options, in their order
    option: int | None = None

    leading: ClassVar[tuple[str, ...]] = ("label", "probability", "probabilities")

    def summary(self) -> list[str]:
        """What the option is called."""
        return [] if self.label is None else [f"label={self.label}"]

    def columns(self) -> dict[str, Any]:
        """The option as the prediction, and the probabilities of all of them."""
        every = [round_probability(probability) for probability in self.probabilities.values()]
        own = {"prediction": self.label, "probability": round_probability(self.probability), PROBABILITIES: every}
        return {**own, **Answer.columns(self)}

    def with_option_names(self, options: Sequence[str]) -> ChoiceAnswer:
        """The same with the texts of the options for their names; equal texts keep the names."""
        if len(set(options)) < len(options) or self.option is None:
            return self
        probabilities = dict(zip(options, self.probabilities.values(), strict=True))
        return replace(self, label=None if self.label is None else options[self.option], probabilities=probabilities)


def build(answers: Answers, place: int, row: TextRow, space: LabelSpace, best: int, common: dict[str, Any]) -> Answer:
    """The option that is taken, called as the labels are written."""
    option = int(answers.labels[place])
    probs = answers.probs[place][: len(row.extra.texts)]
    names = [name_of(number, row.extra, space.scheme) for number in range(len(probs))]
    label = None if common["abstained"] else names[option]
    is_unique = len(set(names)) == len(names)  # two options may be the same text
    keys = names if is_unique else [f"{number}: {name}" for number, name in enumerate(names)]
    probabilities = {key: float(probability) for key, probability in zip(keys, probs, strict=True)}
    return ChoiceAnswer(label=label, option=option, probabilities=probabilities, **common)


def columns(read: Columns, names: tuple[str, ...]) -> tuple[str, ...]:
    """The option that is taken, and the probabilities of all of them."""
    return ("prediction", "probability", PROBABILITIES, "truncated", "windows")


OPTION_ANSWERS = AnswerCodec(
    build=build,
    answer_types=(ChoiceAnswer,),
    purpose="chooses among options",
    model_kind="multiple choice model",
    columns=columns,
    probability_columns=lambda space, columns: columns.options if len(columns.options) >= 2 else (),
    no_probabilities_reason=f"chooses among options of one column, whose {PROBABILITIES} are in their order already",
    has_nested_cells=True,
)
