"""Error examples of the span task, and the occlusion of words in questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.examples import (
    HIGH_CONFIDENCE,
    MAX_SUSPICIOUS,
    MAX_WORST,
    LabeledSpan,
    RowSelection,
    SelectedRow,
    select_smallest,
)
from clearhead.tasks.occlusion import DecodeLogits, OcclusionPlan, OmittedSpans, omit_words, split_words
from clearhead.tasks.span.decoding import get_answer_texts, get_confidence, score_answers
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def select_answer_errors(
    answers: Answers, targets: Array, space: LabelSpace, row_numbers: Sequence[int] | Array
) -> RowSelection:
    """Select wrong answers, those without any overlap with a true answer first, then by confidence."""
    import numpy as np

    predicted = get_answer_texts(answers, targets)
    exact_match, f1, _ = score_answers(predicted, targets)
    confidence = get_confidence(answers)
    error_rows = np.flatnonzero(exact_match == 0)

    def select(index: int) -> SelectedRow:
        truth, label = targets[index], int(answers.labels[index])
        offsets = {(start, start + len(text)) for start, text in zip(truth.starts, truth.answers, strict=True)}
        spans = [LabeledSpan(start=start, end=end, label="true", kind="true") for start, end in sorted(offsets)]
        if label >= 0:
            start, end = int(answers.extra.starts[index, label]), int(answers.extra.ends[index, label])
            spans.append(LabeledSpan(start=start, end=end, label="answered", kind="predicted"))
        return SelectedRow(
            row=int(row_numbers[index]),
            truth=(truth.answers or ("(no answer)",))[0],
            answer=predicted[index] or "(no answer)",
            confidence=float(confidence[index]),
            spans=tuple(sorted(spans, key=lambda span: (span.start, span.end))),
        )

    suspicious = error_rows[(f1[error_rows] == 0) & (confidence[error_rows] >= HIGH_CONFIDENCE)]
    return RowSelection(
        worst=tuple(map(select, select_smallest(error_rows, f1[error_rows] - confidence[error_rows], MAX_WORST))),
        suspicious=tuple(map(select, select_smallest(suspicious, -confidence[suspicious], MAX_SUSPICIOUS))),
        error_count=len(error_rows),
        suspicious_count=len(suspicious),
    )


def plan_question_occlusion(selected: SelectedRow, row: TextRow, decode: DecodeLogits) -> OcclusionPlan | None:
    """Plan the occlusion of words in the question; measures the probability of the predicted answer."""
    predicted = next((span for span in selected.spans if span.kind == "predicted"), None)

    def measure(logits: Any, omitted: OmittedSpans) -> Array:
        import numpy as np

        answers = decode(logits)
        if predicted is None:
            return np.asarray(answers.probs[:, -1])
        candidates = answers.extra  # the answer can have another rank or drop out; then its probability is negligible
        is_predicted = (
            (candidates.starts == predicted.start) & (candidates.ends == predicted.end) & np.isfinite(candidates.scores)
        )
        return np.asarray((answers.probs[:, :-1] * is_predicted).sum(1))

    return OcclusionPlan(runs=(split_words(row.text),), measure=measure, omit=omit_words)
