"""Error examples of the choice task, and the occlusion of words in passage and question."""

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


def select_option_errors(
    answers: Answers, targets: Array, space: LabelSpace, row_numbers: Sequence[int] | Array
) -> RowSelection:
    """Select the most confident errors; option indices become texts when the rows are read."""
    import numpy as np

    row_indices = np.arange(len(targets))
    confidence, label_probability = answers.probs[row_indices, answers.labels], answers.probs[row_indices, targets]
    error_rows = np.flatnonzero(answers.labels != targets)

    def select(index: int) -> SelectedRow:
        return SelectedRow(
            row=int(row_numbers[index]),
            truth=str(targets[index]),
            answer=str(answers.labels[index]),
            confidence=float(confidence[index]),
            label_probability=float(label_probability[index]),
            option_indices=(int(targets[index]), int(answers.labels[index])),
        )

    suspicious = error_rows[confidence[error_rows] >= HIGH_CONFIDENCE]
    return RowSelection(
        worst=tuple(map(select, select_smallest(error_rows, -confidence[error_rows], MAX_WORST))),
        suspicious=tuple(
            map(
                select,
                select_smallest(suspicious, label_probability[suspicious] - confidence[suspicious], MAX_SUSPICIOUS),
            )
        ),
        error_count=len(error_rows),
        suspicious_count=len(suspicious),
    )


def plan_option_occlusion(selected: SelectedRow, row: TextRow, decode: DecodeLogits) -> OcclusionPlan | None:
    """Plan the occlusion of words in passage and question; measures the probability of the chosen option."""
    if selected.option_indices is None:
        return None
    predicted, options = selected.option_indices[1], row.extra
    passage = options.passage or ""
    question_start = len(passage) + 1 if passage else 0  # offset of the question in the text

    def omit(row: TextRow, span: WordSpan) -> TextRow | None:
        question = options.question
        if span.start < question_start:
            shortened = remove_span(passage, span.start, span.end)
            return replace(row, extra=replace(options, passage=shortened)) if shortened else None
        shortened = remove_span(question, span.start - question_start, span.end - question_start)
        return replace(row, extra=replace(options, question=shortened)) if shortened or passage else None

    runs = (split_words(passage), split_words(options.question, question_start))
    return OcclusionPlan(runs=runs, measure=lambda logits, _: decode(logits).probs[:, predicted], omit=omit)
