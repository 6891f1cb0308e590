"""A tag for each word, and the spans that tags make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.answer import Answer, AnswerCodec, FoundSpan
from clearhead.tasks.tag.decoding import spans_of
from clearhead.tasks.task import Answers


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TagsAnswer(Answer):
    """The tags of a text."""

    probability: float | None = None  # of the least sure tag
    text: str | None = None  # that spans count in: words that came as a list are joined by spaces
    tags: tuple[str, ...] | None = None  # a tag for each word; None: abstained
    spans: tuple[FoundSpan, ...] | None = None  # what is tagged

    leading: ClassVar[tuple[str, ...]] = ("probability",)

    def summary(self) -> list[str]:
        """The first spans."""
        if self.spans is None:
            return []
        spans = " ".join(f"{span.text}/{span.label}" for span in self.spans[:5])
        return [f"spans={spans}"] if spans else ["no spans"]

    def columns(self) -> dict[str, Any]:
        """The text that spans count in, and the spans."""
        spans = None if self.spans is None else [span.to_cell() for span in self.spans]
        return {"text": self.text, "spans": spans, **Answer.columns(self)}


def build(answers: Answers, place: int, row: TextRow, space: LabelSpace, best: int, common: dict[str, Any]) -> Answer:
    """Tags of all words, and the spans that they make."""
    ids, probs = answers.labels.row(place), answers.probs.row(place)
    tags = tuple(space.names[tag] for tag in ids)
    own = probs[range(len(ids)), ids]
    borders = row.extra.offsets
    spans = tuple(
        FoundSpan(
            start=borders[first][0],
            end=borders[last - 1][1],
            text=row.text[borders[first][0] : borders[last - 1][1]],
            probability=float(own[first:last].prod()),
            label=label,
        )
        for first, last, label in spans_of(tags, space.scheme)
    )
    abstained = common["abstained"]
    return TagsAnswer(tags=None if abstained else tags, spans=None if abstained else spans, text=row.text, **common)


def columns(read: Columns, names: tuple[str, ...]) -> tuple[str, ...]:
    """The text that spans count in, where no column holds it, and the spans."""
    return (*(() if read.text == "text" else ("text",)), "spans", "truncated", "windows")


TAG_ANSWERS = AnswerCodec(
    build=build,
    answer_types=(TagsAnswer,),
    purpose="tags the words of a text",
    model_kind="tagger",
    columns=columns,
    no_probabilities_reason="finds spans, each of which has its probability already",
    has_nested_cells=True,
    formats=("conll",),
    prefers_json=True,
)
