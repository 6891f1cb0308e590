"""The answer to a question, as a piece of its passage."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.answer import Answer, AnswerCodec, FoundSpan, round_probability
from clearhead.tasks.span.decoding import KEPT
from clearhead.tasks.task import Answers

NUMBER = "id"  # the column for the number of a row without an id


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SpanAnswer(Answer):
    """A piece of a passage."""

    probability: float | None = None
    answer: str | None = None  # empty: it is not in the passage; None: abstained
    nbest: tuple[FoundSpan, ...] = ()  # the best answers, best first

    leading: ClassVar[tuple[str, ...]] = ("probability",)

    def summary(self) -> list[str]:
        """The answer."""
        return [] if self.answer is None else [f"answer={self.answer!r}"]

    def columns(self) -> dict[str, Any]:
        """The answer as it stands in the passage, where it stands, and the runners-up; null where there is none."""
        best = next((span for span in self.nbest if span.text == self.answer), None) if self.answer else None
        return {
            "answer": self.answer,
            "start": None if best is None else best.start,
            "end": None if best is None else best.end,
            "probability": round_probability(self.probability),
            "nbest": [span.to_cell() for span in self.nbest],
            **Answer.columns(self),
        }


def build(answers: Answers, place: int, row: TextRow, space: LabelSpace, best: int, common: dict[str, Any]) -> Answer:
    """The answer as it stands in the passage, and the runners-up."""
    candidates, probs = answers.extra, answers.probs[place]
    passage = row.text_b or ""
    nbest: list[FoundSpan] = []
    for rank in range(candidates.scores.shape[1]):
        if not isfinite(candidates.scores[place, rank]) or len(nbest) == best:
            break
        start, end = int(candidates.begins[place, rank]), int(candidates.ends[place, rank])
        text = passage[start:end]
        start += len(text) - len(text.lstrip())
        text = text.strip()
        nbest.append(FoundSpan(start=start, end=start + len(text), text=text, probability=float(probs[rank])))
    label = int(answers.labels[place])
    answer = None if common["abstained"] else "" if label < 0 else nbest[label].text
    return SpanAnswer(answer=answer, nbest=tuple(nbest), **common)


def columns(read: Columns, names: tuple[str, ...]) -> tuple[str, ...]:
    """The answer, where it stands, and the runners-up; rows without an id get their number as one."""
    numbered = (NUMBER,) if read.id is None and NUMBER not in names else ()
    return (*numbered, "answer", "start", "end", "probability", "nbest", "truncated", "windows")


SPAN_ANSWERS = AnswerCodec(
    build=build,
    answer_types=(SpanAnswer,),
    purpose="finds answers in a passage",
    model_kind="question answerer",
    columns=columns,
    no_probabilities_reason="finds answers, and nbest has the best ones with their probabilities already",
    has_nested_cells=True,
    formats=("squad",),
    prefers_json=True,
    max_candidates=KEPT,
)
