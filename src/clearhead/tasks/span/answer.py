"""Answers of the span task."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.answer import Answer, AnswerCodec, FoundSpan, round_probability
from clearhead.tasks.span.decoding import MAX_CANDIDATES
from clearhead.tasks.task import Answers

ID_COLUMN = "id"  # output column for the row number if the source has no ids


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SpanAnswer(Answer):
    """A span of a passage."""

    probability: float | None = None
    answer: str | None = None  # empty: not in the passage; None: abstained
    nbest: tuple[FoundSpan, ...] = ()  # most probable answers, best first

    leading: ClassVar[tuple[str, ...]] = ("probability",)

    def summary(self) -> list[str]:
        """The text of the answer."""
        return [] if self.answer is None else [f"answer={self.answer!r}"]

    def columns(self) -> dict[str, Any]:
        """The answer, its offsets (null without an answer), and the best candidates."""
        best_span = next((span for span in self.nbest if span.text == self.answer), None) if self.answer else None
        return {
            "answer": self.answer,
            "start": None if best_span is None else best_span.start,
            "end": None if best_span is None else best_span.end,
            "probability": round_probability(self.probability),
            "nbest": [span.to_cell() for span in self.nbest],
            **Answer.columns(self),
        }


def build_answer(
    answers: Answers, index: int, row: TextRow, space: LabelSpace, max_candidates: int, common: dict[str, Any]
) -> Answer:
    """Build the answer with the best candidates, as exact spans of the passage."""
    candidates, probs = answers.extra, answers.probs[index]
    passage = row.text_b or ""
    nbest: list[FoundSpan] = []
    for rank in range(candidates.scores.shape[1]):
        if not isfinite(candidates.scores[index, rank]) or len(nbest) == max_candidates:
            break
        start, end = int(candidates.starts[index, rank]), int(candidates.ends[index, rank])
        text = passage[start:end]
        start += len(text) - len(text.lstrip())
        text = text.strip()
        nbest.append(FoundSpan(start=start, end=start + len(text), text=text, probability=float(probs[rank])))
    label = int(answers.labels[index])
    answer = None if common["abstained"] else "" if label < 0 else nbest[label].text
    return SpanAnswer(answer=answer, nbest=tuple(nbest), **common)


def list_columns(columns: Columns, names: tuple[str, ...]) -> tuple[str, ...]:
    """The answer, its offsets and the best candidates; rows without an id get their row number."""
    id_column = (ID_COLUMN,) if columns.id is None and ID_COLUMN not in names else ()
    return (*id_column, "answer", "start", "end", "probability", "nbest", "truncated", "windows")


SPAN_ANSWERS = AnswerCodec(
    build=build_answer,
    answer_types=(SpanAnswer,),
    purpose="finds answers in a passage",
    model_kind="question answerer",
    columns=list_columns,
    no_probabilities_reason="finds answers, whose probabilities are listed in nbest",
    has_nested_cells=True,
    formats=("squad",),
    prefers_json=True,
    max_candidates=MAX_CANDIDATES,
)
