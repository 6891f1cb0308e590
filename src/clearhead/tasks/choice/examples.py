"""Which questions with options an error analysis shows, and which words of them are left out to see what matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.examples import MOST_SUSPICIOUS, MOST_WORST, VERY_SURE, Pick, Picks, first_places
from clearhead.tasks.occlusion import Piece, Read, Watching, cut, words_in
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def pick_options(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> Picks:
    """Questions whose wrong option is surest; the options get their words when the text is read."""
    import numpy as np

    every = np.arange(len(targets))
    sure, given = answers.probs[every, answers.labels], answers.probs[every, targets]
    wrong = np.flatnonzero(answers.labels != targets)

    def pick(place: int) -> Pick:
        return Pick(
            row=int(numbers[place]),
            truth=str(targets[place]),
            answer=str(answers.labels[place]),
            sure=float(sure[place]),
            given=float(given[place]),
            chosen=(int(targets[place]), int(answers.labels[place])),
        )

    odd = wrong[sure[wrong] >= VERY_SURE]
    return Picks(
        worst=tuple(map(pick, first_places(wrong, -sure[wrong], MOST_WORST))),
        suspicious=tuple(map(pick, first_places(odd, given[odd] - sure[odd], MOST_SUSPICIOUS))),
        wrong=len(wrong),
        doubtful=len(odd),
    )


def watch_options(pick: Pick, row: TextRow, read: Read) -> Watching | None:
    """A question with options: the probability of the one that was taken, without words of passage and question."""
    if pick.chosen is None:
        return None
    taken, options = pick.chosen[1], row.extra
    passage = options.passage or ""
    begin = len(passage) + 1 if passage else 0  # where the question stands in the text

    def without(row: TextRow, piece: Piece) -> TextRow | None:
        question = options.question
        if piece.start < begin:
            left = cut(passage, piece.start, piece.end)
            return replace(row, extra=replace(options, passage=left)) if left else None
        left = cut(question, piece.start - begin, piece.end - begin)
        return replace(row, extra=replace(options, question=left)) if left or passage else None

    runs = (words_in(passage), words_in(options.question, begin))
    return Watching(runs=runs, value=lambda logits, _: read(logits).probs[:, taken], without=without)
