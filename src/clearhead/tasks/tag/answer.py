"""Answers of the tag task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.answer import Answer, AnswerCodec, FoundSpan
from clearhead.tasks.tag.decoding import extract_spans
from clearhead.tasks.task import Answers


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TagsAnswer(Answer):
    """The tags and entities of a text."""

    probability: float | None = None  # of the least confident tag
    text: str | None = None  # text that span offsets refer to; listed words are joined by spaces
    tags: tuple[str, ...] | None = None  # one tag per word; None: abstained
    spans: tuple[FoundSpan, ...] | None = None  # the entities

    leading: ClassVar[tuple[str, ...]] = ("probability",)

    def summary(self) -> list[str]:
        """The first entities."""
        if self.spans is None:
            return []
        spans = " ".join(f"{span.text}/{span.label}" for span in self.spans[:5])
        return [f"spans={spans}"] if spans else ["no spans"]

    def columns(self) -> dict[str, Any]:
        """The text that span offsets refer to, and the spans."""
        spans = None if self.spans is None else [span.to_cell() for span in self.spans]
        return {"text": self.text, "spans": spans, **Answer.columns(self)}


def build_answer(
    answers: Answers, index: int, row: TextRow, space: LabelSpace, max_candidates: int, common: dict[str, Any]
) -> Answer:
    """Build the answer: tags of all words, and entities."""
    ids, probs = answers.labels.row(index), answers.probs.row(index)
    tags = tuple(space.names[tag] for tag in ids)
    tag_probs = probs[range(len(ids)), ids]
    offsets = row.extra.offsets
    spans = tuple(
        FoundSpan(
            start=offsets[first][0],
            end=offsets[last - 1][1],
            text=row.text[offsets[first][0] : offsets[last - 1][1]],
            probability=float(tag_probs[first:last].prod()),
            label=label,
        )
        for first, last, label in extract_spans(tags, space.scheme)
    )
    abstained = common["abstained"]
    return TagsAnswer(tags=None if abstained else tags, spans=None if abstained else spans, text=row.text, **common)


def list_columns(columns: Columns, names: tuple[str, ...]) -> tuple[str, ...]:
    """The text that span offsets refer to, unless the source has it, and the spans."""
    return (*(() if columns.text == "text" else ("text",)), "spans", "truncated", "windows")


TAG_ANSWERS = AnswerCodec(
    build=build_answer,
    answer_types=(TagsAnswer,),
    purpose="tags the words of a text",
    model_kind="tagger",
    columns=list_columns,
    no_probabilities_reason="finds spans, each of which includes its probability",
    has_nested_cells=True,
    formats=("conll",),
    prefers_json=True,
)
