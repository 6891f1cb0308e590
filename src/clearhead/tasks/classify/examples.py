"""Which rows with labels an error analysis shows: sure mistakes, suspicious labels, cells of the confusion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.examples import (
    HIGH_CONFIDENCE,
    MAX_CELLS,
    MAX_ROWS_PER_CELL,
    MAX_SUSPICIOUS,
    MAX_WORST,
    MIN_CONFIDENCE,
    MIN_LABEL_MARGIN,
    ConfusionCell,
    RowSelection,
    SelectedRow,
    select_smallest,
)
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def pick_labels(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> RowSelection:
    """One label a row, or several."""
    pick = pick_several if space.kind == "multilabel" else pick_classes
    return pick(answers, targets, space, numbers)


def pick_classes(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> RowSelection:
    """One label a row."""
    import numpy as np

    assert answers.probs is not None
    probs, said = answers.probs, answers.labels
    every = np.arange(len(targets))
    sure, given = probs[every, said], probs[every, targets]
    wrong = np.flatnonzero(said != targets)

    def pick(place: int) -> SelectedRow:
        return SelectedRow(
            row=int(numbers[place]),
            truth=space.names[targets[place]],
            answer=space.names[said[place]],
            confidence=float(sure[place]),
            label_probability=float(given[place]),
            output_index=int(said[place]),
        )

    usual = _usual(probs, targets, len(space))
    odd = wrong[sure[wrong] >= np.clip(usual[said[wrong]], MIN_CONFIDENCE, HIGH_CONFIDENCE)]
    odd = odd[sure[odd] - given[odd] >= MIN_LABEL_MARGIN]
    margin = given[odd] - sure[odd]
    return RowSelection(
        worst=tuple(map(pick, select_smallest(wrong, -sure[wrong], MAX_WORST))),
        suspicious=tuple(map(pick, select_smallest(odd, margin, MAX_SUSPICIOUS))),
        error_count=len(wrong),
        suspicious_count=len(odd),
        cells=tuple(_cells(targets, said, sure, len(space), pick)),
    )


def _usual(probs: Array, targets: Array, classes: int) -> Array:
    """(classes,) how probable each class is to the model on rows that have it: the threshold of confident learning."""
    import numpy as np

    counts = np.bincount(targets, minlength=classes)
    own = np.bincount(targets, weights=probs[np.arange(len(targets)), targets], minlength=classes)
    return np.asarray(np.where(counts > 0, own / np.maximum(counts, 1), MIN_CONFIDENCE))


def _cells(
    targets: Array, said: Array, sure: Array, classes: int, pick: Callable[[int], SelectedRow]
) -> Iterator[ConfusionCell]:
    """Frequent mistakes first, then right answers."""
    import numpy as np

    codes = targets.astype(np.int64) * classes + said
    found, counts = np.unique(codes, return_counts=True)
    wrong = found // classes != found % classes
    for place in np.lexsort((found, -counts, ~wrong))[:MAX_CELLS]:
        rows = np.flatnonzero(codes == found[place])
        sign = -1 if wrong[place] else 1
        yield ConfusionCell(
            true=int(found[place] // classes),
            predicted=int(found[place] % classes),
            count=int(counts[place]),
            rows=tuple(map(pick, select_smallest(rows, sign * sure[rows], MAX_ROWS_PER_CELL))),
        )


def pick_several(answers: Answers, targets: Array, space: LabelSpace, numbers: Sequence[int] | Array) -> RowSelection:
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

    def pick(place: int) -> SelectedRow:
        watched = int(worst[place])
        return SelectedRow(
            row=int(numbers[place]),
            truth=named(targets[place]),
            answer=named(answers.labels[place]),
            confidence=float(strength[place]),
            label_probability=1 - float(strength[place]),
            output_index=watched,
            is_negated=not bool(yes[place, watched]),
        )

    having = np.maximum(targets.sum(0), 1)
    lacking = np.maximum((1 - targets.astype(np.int64)).sum(0), 1)
    usual_yes = (answers.probs * (targets == 1)).sum(0) / having
    usual_no = ((1 - answers.probs) * (targets == 0)).sum(0) / lacking
    usual = np.where(yes[wrong, worst[wrong]], usual_yes[worst[wrong]], usual_no[worst[wrong]])
    odd = wrong[strength[wrong] >= np.clip(usual, (1 + MIN_LABEL_MARGIN) / 2, HIGH_CONFIDENCE)]
    return RowSelection(
        worst=tuple(map(pick, select_smallest(wrong, -strength[wrong], MAX_WORST))),
        suspicious=tuple(map(pick, select_smallest(odd, -strength[odd], MAX_SUSPICIOUS))),
        error_count=len(wrong),
        suspicious_count=len(odd),
    )
