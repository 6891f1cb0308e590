"""Word importance by occlusion: remove each word in turn and measure how the prediction changes."""

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

MAX_GROUPS = 40  # word groups of a text; in longer texts, a group has several words
MIN_GROUPS = 8  # with fewer groups, a long text is skipped
MAX_CHARACTERS = 20_000  # longer texts are skipped
MAX_TIME_SHARE = 1 / 3  # of the remaining time for the next row
BATCH_TIME_FACTOR = 0.5  # time of a text in a batch, relative to a single text
TIME_LIMIT_SECONDS = 4.0  # for all rows


@dataclass(frozen=True, kw_only=True)
class OccludedRow:
    """The word importances of a row."""

    full_value: float  # measured value of the full text
    words: tuple[WordImportance, ...]
    scored: int  # number of scored texts


def occlude_row(
    scorer: Scorer, row: TextRow, columns: Columns, plan: OcclusionPlan, *, seconds: float = TIME_LIMIT_SECONDS
) -> OccludedRow | None:
    """Compute the importance of each word of a row; None if the row is too long or has a single word."""
    if len(row.text) + len(row.text_b or "") > MAX_CHARACTERS:
        return None
    try:
        return _measure_words(scorer, row, columns, plan, seconds)
    except InputError:  # the remaining text has no tokens
        return None


def _measure_words(
    scorer: Scorer, row: TextRow, columns: Columns, plan: OcclusionPlan, seconds: float
) -> OccludedRow | None:
    started = time.perf_counter()
    full_value = float(plan.measure(scorer.score([row], columns).logits, [None])[0])
    elapsed = time.perf_counter() - started
    max_groups = min(MAX_GROUPS, int(seconds / (BATCH_TIME_FACTOR * elapsed))) if elapsed > 0 else MAX_GROUPS
    groups = group_words(plan.runs, max(max_groups, MIN_GROUPS))
    if len(groups) > max_groups:
        return None
    shortened = [(group, short_row) for group in groups if (short_row := plan.omit(row, group)) is not None]
    if not shortened:
        return None
    values = plan.measure(
        scorer.score([short_row for _, short_row in shortened], columns).logits, [group for group, _ in shortened]
    )
    words = tuple(
        WordImportance(
            start=group.start, end=group.end, weight=full_value - float(value), in_second_text=group.in_second_text
        )
        for (group, _), value in zip(shortened, values, strict=True)
    )
    return OccludedRow(full_value=full_value, words=words, scored=len(shortened) + 1)


def occlude_rows(
    scorer: Scorer,
    rows: Sequence[tuple[TextRow, OcclusionPlan]],
    columns: Columns,
    *,
    seconds: float = TIME_LIMIT_SECONDS,
    progress: Progress = no_progress,
) -> list[OccludedRow | None]:
    """Compute word importances of rows in order, within about `seconds` in total."""
    results: list[OccludedRow | None] = []
    if rows:
        occlude_row(scorer, rows[0][0], columns, rows[0][1], seconds=0.0)  # warm up: the first prediction is slow
    min_slow_size = MAX_CHARACTERS + 1  # characters of the shortest row that took too long
    started = time.perf_counter()
    for index, (row, plan) in enumerate(rows):
        remaining = seconds - (time.perf_counter() - started)
        row_seconds = max(remaining / (len(rows) - index), remaining * MAX_TIME_SHARE)  # the first rows matter most
        size = len(row.text) + len(row.text_b or "")
        occluded = (
            occlude_row(scorer, row, columns, plan, seconds=row_seconds)
            if remaining > 0 and size < min_slow_size
            else None
        )
        if occluded is None and len(group_words(plan.runs, MAX_GROUPS)) > 1:
            min_slow_size = min(min_slow_size, size)
        results.append(occluded)
        progress("occluding words", index + 1, len(rows))
    return results
