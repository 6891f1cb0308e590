"""Rows of taggers, answerers and choosers that are worth a look, with what is true and what was said marked in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.examples import MOST_SUSPICIOUS, MOST_WORST, VERY_SURE, Mark, Pick, Picks, first_places
from clearhead.tasks.ragged import Ragged
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def pick_tags(answers: Answers, targets: Ragged, space: LabelSpace, numbers: Sequence[int] | Array) -> Picks:
    """Sentences with the tag that is most surely wrong; marks count words, until the text is read."""
    import numpy as np

    said, probs = answers.labels, answers.probs.values
    own = probs[np.arange(len(probs)), said.values]
    missed = np.where(said.values != targets.values, own, -1.0)
    strength = np.full(len(targets), -1.0)
    np.maximum.at(strength, targets.owners, missed)
    wrong = np.flatnonzero(strength >= 0)

    def pick(place: int) -> Pick:
        true, told = (_spans(rows.row(place), space) for rows in (targets, said))
        begin, end = targets.bounds[place : place + 2]
        first, last = _mistaken(int(missed[begin:end].argmax()), true, told)
        return Pick(
            row=int(numbers[place]),
            truth=_counted(true),
            answer=_counted(told),
            sure=float(strength[place]),
            marks=_marks(true, told),
            words=True,
            place=(first, last),
            tags=tuple(int(tag) for tag in said.row(place)[first:last]),
        )

    odd = wrong[strength[wrong] >= VERY_SURE]
    return Picks(
        worst=tuple(map(pick, first_places(wrong, -strength[wrong], MOST_WORST))),
        suspicious=tuple(map(pick, first_places(odd, -strength[odd], MOST_SUSPICIOUS))),
        wrong=len(wrong),
        doubtful=len(odd),
    )


def _spans(row: Array, space: LabelSpace) -> set[tuple[int, int, str]]:
    from clearhead.tasks.tag.decoding import spans_of

    return set(spans_of([space.names[tag] for tag in row], space.scheme))


def _mistaken(word: int, true: set[tuple[int, int, str]], said: set[tuple[int, int, str]]) -> tuple[int, int]:
    """The words of the answered entity that a wrong tag is in, or those of the true one that were taken for nothing."""
    for first, last, _ in said:
        if first <= word < last:
            return first, last
    first, last = next(((a, b) for a, b, _ in true if a <= word < b), (word, word + 1))
    taken = {place for a, b, _ in said for place in range(a, b)}
    begin = max((place + 1 for place in taken if first <= place < word), default=first)
    return begin, min((place for place in taken if word < place < last), default=last)


def _counted(spans: set[tuple[int, int, str]]) -> str:
    counts = Counter(label for _, _, label in spans)
    return ", ".join(f"{count} {label}" for label, count in sorted(counts.items())) or "(none)"


def _marks(true: set[tuple[int, int, str]], said: set[tuple[int, int, str]]) -> tuple[Mark, ...]:
    """What only one of the two has, and what both have; of plain tags, which mark every word, the differences alone."""
    kinds = (("both", true & said), ("true", true - said), ("predicted", said - true))
    made = [Mark(start=a, end=b, label=label, kind=kind) for kind, some in kinds for a, b, label in some]  # type: ignore[arg-type]
    made.sort(key=lambda mark: (mark.start, mark.end, mark.kind))
    return tuple(made)


def pick_answers(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> Picks:
    """Questions whose answer shares nothing with a right one first, the surest before."""
    import numpy as np

    from clearhead.tasks.span.decoding import confidence, scores_of, texts

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
