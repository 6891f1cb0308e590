"""Which questions with options an error analysis shows, and which words of them are left out to see what matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.examples import (
    HIGH_CONFIDENCE,
    MAX_SUSPICIOUS,
    MAX_WORST,
    RowSelection,
    SelectedRow,
    select_smallest,
)
from clearhead.tasks.occlusion import DecodeLogits, OcclusionPlan, WordSpan, remove_span, split_words
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def pick_options(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> RowSelection:
    """Questions whose wrong option is surest; the options get their words when the text is read."""
    import numpy as np

    every = np.arange(len(targets))
    sure, given = answers.probs[every, answers.labels], answers.probs[every, targets]
    wrong = np.flatnonzero(answers.labels != targets)

    def pick(place: int) -> SelectedRow:
        return SelectedRow(
            row=int(numbers[place]),
            truth=str(targets[place]),
            answer=str(answers.labels[place]),
            confidence=float(sure[place]),
            label_probability=float(given[place]),
            option_indices=(int(targets[place]), int(answers.labels[place])),
        )

    odd = wrong[sure[wrong] >= HIGH_CONFIDENCE]
    return RowSelection(
        worst=tuple(map(pick, select_smallest(wrong, -sure[wrong], MAX_WORST))),
        suspicious=tuple(map(pick, select_smallest(odd, given[odd] - sure[odd], MAX_SUSPICIOUS))),
        error_count=len(wrong),
        suspicious_count=len(odd),
    )


def watch_options(pick: SelectedRow, row: TextRow, read: DecodeLogits) -> OcclusionPlan | None:
    """A question with options: the probability of the one that was taken, without words of passage and question."""
    if pick.option_indices is None:
        return None
    taken, options = pick.option_indices[1], row.extra
    passage = options.passage or ""
    begin = len(passage) + 1 if passage else 0  # where the question stands in the text

    def without(row: TextRow, piece: WordSpan) -> TextRow | None:
        question = options.question
        if piece.start < begin:
            left = remove_span(passage, piece.start, piece.end)
            return replace(row, extra=replace(options, passage=left)) if left else None
        left = remove_span(question, piece.start - begin, piece.end - begin)
        return replace(row, extra=replace(options, question=left)) if left or passage else None

    runs = (split_words(passage), split_words(options.question, begin))
    return OcclusionPlan(runs=runs, measure=lambda logits, _: read(logits).probs[:, taken], omit=without)
