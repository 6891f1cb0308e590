"""Which rows with labels an error analysis shows: sure mistakes, suspicious labels, cells of the confusion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.examples import (
    AHEAD,
    EACH,
    MOST_CELLS,
    MOST_SUSPICIOUS,
    MOST_WORST,
    SURE,
    VERY_SURE,
    Cell,
    Pick,
    Picks,
    first_places,
)
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def pick_labels(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> Picks:
    """One label a row, or several."""
    pick = pick_several if space.kind == "multilabel" else pick_classes
    return pick(answers, targets, space, numbers)


def pick_classes(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> Picks:
    """One label a row."""
    import numpy as np

    assert answers.probs is not None
    probs, said = answers.probs, answers.labels
    every = np.arange(len(targets))
    sure, given = probs[every, said], probs[every, targets]
    wrong = np.flatnonzero(said != targets)

    def pick(place: int) -> Pick:
        return Pick(
            row=int(numbers[place]),
            truth=space.names[targets[place]],
            answer=space.names[said[place]],
            sure=float(sure[place]),
            given=float(given[place]),
            watched=int(said[place]),
        )

    usual = _usual(probs, targets, len(space))
    odd = wrong[sure[wrong] >= np.clip(usual[said[wrong]], SURE, VERY_SURE)]
    odd = odd[sure[odd] - given[odd] >= AHEAD]
    margin = given[odd] - sure[odd]
    return Picks(
        worst=tuple(map(pick, first_places(wrong, -sure[wrong], MOST_WORST))),
        suspicious=tuple(map(pick, first_places(odd, margin, MOST_SUSPICIOUS))),
        wrong=len(wrong),
        doubtful=len(odd),
        cells=tuple(_cells(targets, said, sure, len(space), pick)),
    )


def _usual(probs: Array, targets: Array, classes: int) -> Array:
    """(classes,) how probable each class is to the model on rows that have it: the threshold of confident learning."""
    import numpy as np

    counts = np.bincount(targets, minlength=classes)
    own = np.bincount(targets, weights=probs[np.arange(len(targets)), targets], minlength=classes)
    return np.asarray(np.where(counts > 0, own / np.maximum(counts, 1), SURE))


def _cells(targets: Array, said: Array, sure: Array, classes: int, pick: Callable[[int], Pick]) -> Iterator[Cell]:
    """Frequent mistakes first, then right answers."""
    import numpy as np

    codes = targets.astype(np.int64) * classes + said
    found, counts = np.unique(codes, return_counts=True)
    wrong = found // classes != found % classes
    for place in np.lexsort((found, -counts, ~wrong))[:MOST_CELLS]:
        rows = np.flatnonzero(codes == found[place])
        sign = -1 if wrong[place] else 1
        yield Cell(
            true=int(found[place] // classes),
            answered=int(found[place] % classes),
            count=int(counts[place]),
            picks=tuple(map(pick, first_places(rows, sign * sure[rows], EACH))),
        )


def pick_several(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> Picks:
    """Several labels a row: each row stands for the decision that is most surely wrong."""
    import numpy as np

    assert answers.probs is not None
    yes = answers.labels == 1
    sure = np.where(yes, answers.probs, 1 - answers.probs)  # of each decision
    missed = np.where(answers.labels != targets, sure, -1.0)
    worst = missed.argmax(-1)
    every = np.arange(len(targets))
    strength = missed[every, worst]
    wrong = np.flatnonzero(strength >= 0)

    def named(row: Array) -> str:
        return ", ".join(space.names[place] for place in np.flatnonzero(row)) or "(none)"

    def pick(place: int) -> Pick:
        watched = int(worst[place])
        return Pick(
            row=int(numbers[place]),
            truth=named(targets[place]),
            answer=named(answers.labels[place]),
            sure=float(strength[place]),
            given=1 - float(strength[place]),
            watched=watched,
            against=not bool(yes[place, watched]),
        )

    having = np.maximum(targets.sum(0), 1)
    lacking = np.maximum((1 - targets.astype(np.int64)).sum(0), 1)
    usual_yes = (answers.probs * (targets == 1)).sum(0) / having
    usual_no = ((1 - answers.probs) * (targets == 0)).sum(0) / lacking
    usual = np.where(yes[wrong, worst[wrong]], usual_yes[worst[wrong]], usual_no[worst[wrong]])
    odd = wrong[strength[wrong] >= np.clip(usual, (1 + AHEAD) / 2, VERY_SURE)]
    return Picks(
        worst=tuple(map(pick, first_places(wrong, -strength[wrong], MOST_WORST))),
        suspicious=tuple(map(pick, first_places(odd, -strength[odd], MOST_SUSPICIOUS))),
        wrong=len(wrong),
        doubtful=len(odd),
    )
