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

MAX_GROUPS = 40  # of a text that are left out one by one; longer texts lose several words at once
MIN_GROUPS = 8  # with fewer pieces of a long text, nothing is learned about words
MAX_CHARACTERS = 20_000  # of a text that is taken apart
MAX_TIME_SHARE = 1 / 3  # of the time that is left may go to the next row
BATCH_TIME_FACTOR = 0.5  # of the time of one text alone that each of many takes
TIME_LIMIT_SECONDS = 4.0  # for all rows together


@dataclass(frozen=True, kw_only=True)
class OccludedRow:
    """A row taken apart."""

    full_value: float  # what is watched, with nothing left out
    words: tuple[WordImportance, ...]
    scored: int  # texts that were read for it


def occlude_row(
    scorer: Scorer, row: TextRow, columns: Columns, watching: OcclusionPlan, *, seconds: float = TIME_LIMIT_SECONDS
) -> OccludedRow | None:
    """How much each word of a row matters; None where it is too long for the time, or one word alone."""
    if len(row.text) + len(row.text_b or "") > MAX_CHARACTERS:
        return None
    try:
        return _weigh_words(scorer, row, columns, watching, seconds)
    except InputError:  # what is left has no tokens for this model
        return None


def _weigh_words(
    scorer: Scorer, row: TextRow, columns: Columns, watching: OcclusionPlan, seconds: float
) -> OccludedRow | None:
    started = time.perf_counter()
    full_value = float(watching.measure(scorer.score([row], columns).logits, [None])[0])
    took = time.perf_counter() - started
    most = min(MAX_GROUPS, int(seconds / (BATCH_TIME_FACTOR * took))) if took > 0 else MAX_GROUPS
    parts = group_words(watching.runs, max(most, MIN_GROUPS))
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
    return OccludedRow(full_value=full_value, words=words, scored=len(left) + 1)


def occlude_rows(
    scorer: Scorer,
    rows: Sequence[tuple[TextRow, OcclusionPlan]],
    columns: Columns,
    *,
    seconds: float = TIME_LIMIT_SECONDS,
    progress: Progress = no_progress,
) -> list[OccludedRow | None]:
    """Several rows one after the other, the first ones first, for about so many seconds together."""
    results: list[OccludedRow | None] = []
    if rows:
        occlude_row(scorer, rows[0][0], columns, rows[0][1], seconds=0.0)  # the first answer is slow
    too_long = MAX_CHARACTERS + 1  # characters that there was no time for
    started = time.perf_counter()
    for index, (row, watching) in enumerate(rows):
        left = seconds - (time.perf_counter() - started)
        share = max(left / (len(rows) - index), left * MAX_TIME_SHARE)  # the first rows matter most
        size = len(row.text) + len(row.text_b or "")
        occluded = occlude_row(scorer, row, columns, watching, seconds=share) if left > 0 and size < too_long else None
        if occluded is None and len(group_words(watching.runs, MAX_GROUPS)) > 1:
            too_long = min(too_long, size)
        results.append(occluded)
        progress("occluding words", index + 1, len(rows))
    return results
