"""Which questions on passages an error analysis shows, and which words of them are left out to see what matters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.examples import MOST_SUSPICIOUS, MOST_WORST, VERY_SURE, Mark, Pick, Picks, first_places
from clearhead.tasks.occlusion import Left, Read, Watching, without_words, words_in
from clearhead.tasks.span.decoding import confidence, scores_of, texts
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def pick_answers(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> Picks:
    """Questions whose answer shares nothing with a right one first, the surest before."""
    import numpy as np

    said = texts(answers, targets)
    em, f1, _ = scores_of(said, targets)
    sure = confidence(answers)
    wrong = np.flatnonzero(em == 0)

    def pick(place: int) -> Pick:
        truth, label = targets[place], int(answers.labels[place])
        true = {(start, start + len(text), "true") for start, text in zip(truth.starts, truth.answers, strict=True)}
        told = set()
        if label >= 0:
            begin, end = (int(ends[place, label]) for ends in (answers.more.begins, answers.more.ends))
            told = {(begin, end, "said")}
        marks = [Mark(start=a, end=b, label="true", kind="true") for a, b, _ in sorted(true)]
        marks += [Mark(start=a, end=b, label="answered", kind="predicted") for a, b, _ in told]
        return Pick(
            row=int(numbers[place]),
            truth=(truth.answers or ("(no answer)",))[0],
            answer=said[place] or "(no answer)",
            sure=float(sure[place]),
            marks=tuple(sorted(marks, key=lambda mark: (mark.start, mark.end))),
        )

    odd = wrong[(f1[wrong] == 0) & (sure[wrong] >= VERY_SURE)]
    return Picks(
        worst=tuple(map(pick, first_places(wrong, f1[wrong] - sure[wrong], MOST_WORST))),
        suspicious=tuple(map(pick, first_places(odd, -sure[odd], MOST_SUSPICIOUS))),
        wrong=len(wrong),
        doubtful=len(odd),
    )


def watch_question(pick: Pick, row: TextRow, read: Read) -> Watching | None:
    """A question on a passage: the probability of the answer that was given, or of none, without words asked."""
    said = next((mark for mark in pick.marks if mark.kind == "predicted"), None)

    def value(logits: Any, left: Left) -> Array:
        import numpy as np

        answers = read(logits)
        if said is None:
            return np.asarray(answers.probs[:, -1])
        found = answers.more  # the answer may have another rank now, or none: then it is hardly probable
        same = (found.begins == said.start) & (found.ends == said.end) & np.isfinite(found.scores)
        return np.asarray((answers.probs[:, :-1] * same).sum(1))

    return Watching(runs=(words_in(row.text),), value=value, without=without_words)
