"""Which questions on passages an error analysis shows, and which words of them are left out to see what matters."""

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
from clearhead.tasks.span.decoding import confidence, scores_of, texts
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def pick_answers(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> RowSelection:
    """Questions whose answer shares nothing with a right one first, the surest before."""
    import numpy as np

    said = texts(answers, targets)
    em, f1, _ = scores_of(said, targets)
    sure = confidence(answers)
    wrong = np.flatnonzero(em == 0)

    def pick(place: int) -> SelectedRow:
        truth, label = targets[place], int(answers.labels[place])
        true = {(start, start + len(text), "true") for start, text in zip(truth.starts, truth.answers, strict=True)}
        told = set()
        if label >= 0:
            begin, end = (int(ends[place, label]) for ends in (answers.extra.begins, answers.extra.ends))
            told = {(begin, end, "said")}
        marks = [LabeledSpan(start=a, end=b, label="true", kind="true") for a, b, _ in sorted(true)]
        marks += [LabeledSpan(start=a, end=b, label="answered", kind="predicted") for a, b, _ in told]
        return SelectedRow(
            row=int(numbers[place]),
            truth=(truth.answers or ("(no answer)",))[0],
            answer=said[place] or "(no answer)",
            confidence=float(sure[place]),
            spans=tuple(sorted(marks, key=lambda mark: (mark.start, mark.end))),
        )

    odd = wrong[(f1[wrong] == 0) & (sure[wrong] >= HIGH_CONFIDENCE)]
    return RowSelection(
        worst=tuple(map(pick, select_smallest(wrong, f1[wrong] - sure[wrong], MAX_WORST))),
        suspicious=tuple(map(pick, select_smallest(odd, -sure[odd], MAX_SUSPICIOUS))),
        error_count=len(wrong),
        suspicious_count=len(odd),
    )


def watch_question(pick: SelectedRow, row: TextRow, read: DecodeLogits) -> OcclusionPlan | None:
    """A question on a passage: the probability of the answer that was given, or of none, without words asked."""
    said = next((mark for mark in pick.spans if mark.kind == "predicted"), None)

    def value(logits: Any, left: OmittedSpans) -> Array:
        import numpy as np

        answers = read(logits)
        if said is None:
            return np.asarray(answers.probs[:, -1])
        found = answers.extra  # the answer may have another rank now, or none: then it is hardly probable
        same = (found.begins == said.start) & (found.ends == said.end) & np.isfinite(found.scores)
        return np.asarray((answers.probs[:, :-1] * same).sum(1))

    return OcclusionPlan(runs=(split_words(row.text),), measure=value, omit=omit_words)
