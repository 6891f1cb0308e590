"""Which words mattered: each is left out in turn and the answer read again, by whatever it is that answers rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.errors import InputError
from clearhead.predict.scoring import Scorer
from clearhead.progress import Progress, no_progress
from clearhead.tasks.examples import WordImportance
from clearhead.tasks.occlusion import OcclusionPlan, group_words

MOST_PIECES = 40  # of a text that are left out one by one; longer texts lose several words at once
LEAST_PIECES = 8  # with fewer pieces of a long text, nothing is learned about words
MOST_CHARACTERS = 20_000  # of a text that is taken apart
EAGER = 1 / 3  # of the time that is left may go to the next row
TOGETHER = 0.5  # of the time of one text alone that each of many takes
SECONDS = 4.0  # for all rows together


@dataclass(frozen=True, kw_only=True)
class Occluded:
    """A row taken apart."""

    whole: float  # what is watched, with nothing left out
    words: tuple[WordImportance, ...]
    scored: int  # texts that were read for it


def occlude(
    scorer: Scorer, row: TextRow, columns: Columns, watching: OcclusionPlan, *, seconds: float = SECONDS
) -> Occluded | None:
    """How much each word of a row matters; None where it is too long for the time, or one word alone."""
    if len(row.text) + len(row.text_b or "") > MOST_CHARACTERS:
        return None
    try:
        return _occluded(scorer, row, columns, watching, seconds)
    except InputError:  # what is left has no tokens for this model
        return None


def _occluded(
    scorer: Scorer, row: TextRow, columns: Columns, watching: OcclusionPlan, seconds: float
) -> Occluded | None:
    started = time.perf_counter()
    full_value = float(watching.measure(scorer.score([row], columns).logits, [None])[0])
    took = time.perf_counter() - started
    most = min(MOST_PIECES, int(seconds / (TOGETHER * took))) if took > 0 else MOST_PIECES
    parts = group_words(watching.runs, max(most, LEAST_PIECES))
    if len(parts) > most:
        return None
    left = [(part, short) for part in parts if (short := watching.omit(row, part)) is not None]
    if not left:
        return None
    values = watching.measure(scorer.score([short for _, short in left], columns).logits, [part for part, _ in left])
    words = tuple(
        WordImportance(
            start=part.start, end=part.end, weight=full_value - float(value), in_second_text=part.in_second_text
        )
        for (part, _), value in zip(left, values, strict=True)
    )
    return Occluded(whole=full_value, words=words, scored=len(left) + 1)


def occlude_rows(
    scorer: Scorer,
    rows: Sequence[tuple[TextRow, OcclusionPlan]],
    columns: Columns,
    *,
    seconds: float = SECONDS,
    progress: Progress = no_progress,
) -> list[Occluded | None]:
    """Several rows one after the other, the first ones first, for about so many seconds together."""
    results: list[Occluded | None] = []
    if rows:
        occlude(scorer, rows[0][0], columns, rows[0][1], seconds=0.0)  # the first answer is slow
    too_long = MOST_CHARACTERS + 1  # characters that there was no time for
    started = time.perf_counter()
    for index, (row, watching) in enumerate(rows):
        left = seconds - (time.perf_counter() - started)
        share = max(left / (len(rows) - index), left * EAGER)  # the first rows matter most
        size = len(row.text) + len(row.text_b or "")
        occluded = occlude(scorer, row, columns, watching, seconds=share) if left > 0 and size < too_long else None
        if occluded is None and len(group_words(watching.runs, MOST_PIECES)) > 1:
            too_long = min(too_long, size)
        results.append(occluded)
        progress("occluding words", index + 1, len(rows))
    return results
