"""Prediction over a source in chunks, in order and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from clearhead.data import BadRow, Columns, LabelSpace, Row, Source, TextRow
from clearhead.data.examples import BadRows
from clearhead.tasks.answer import Answer
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    from clearhead.predict.predictor import Predictor

    Array = np.ndarray[Any, Any]

CHUNK_ROWS = 1024  # rows that are read, sorted by length and predicted together


@dataclass(frozen=True, kw_only=True)
class AnsweredChunk:
    """Consecutive rows, and the decoded answers to the usable ones."""

    rows: list[Row | BadRow]  # all rows, in order
    usable: list[TextRow]
    bad: list[BadRow]
    logits: Any  # of the usable rows; None without any
    answers: Answers
    truncated: Array
    windows: Array


def answer_chunks(
    predictor: Predictor,
    source: Source,
    columns: Columns,
    *,
    labels: LabelSpace | None = None,
    skip: int = 0,
    chunk: int = CHUNK_ROWS,
) -> Iterator[AnsweredChunk]:
    """Predict the rows of a source in chunks, in order, after skipping the first `skip` rows."""
    used_columns = columns if labels is not None else replace(columns, label=None)
    rows = islice(source.rows(), skip, None)
    while chunk_rows := list(islice(rows, chunk)):
        check, space = predictor.task.rows.check_row, labels or predictor.space
        checked = [row if isinstance(row, BadRow) else check(row, used_columns, space) for row in chunk_rows]
        yield _answer_chunk(predictor, chunk_rows, checked, used_columns)


def _answer_chunk(
    predictor: Predictor, rows: list[Row | BadRow], checked: Sequence[TextRow | BadRow], columns: Columns
) -> AnsweredChunk:
    import numpy as np

    usable = [row for row in checked if isinstance(row, TextRow)]
    bad = [row for row in checked if isinstance(row, BadRow)]
    if usable:
        logits, truncated, windows = predictor.scorer.score(usable, columns)
        answers = predictor.task.decoding.decode(logits, predictor.space, predictor.calibration)
    else:
        logits = None
        truncated, windows = np.zeros(0, np.int32), np.zeros(0, np.int64)
        answers = Answers(labels=np.zeros(0, np.int64))
    return AnsweredChunk(
        rows=rows, usable=usable, bad=bad, logits=logits, answers=answers, truncated=truncated, windows=windows
    )


def build_answers(predictor: Predictor, chunk: AnsweredChunk) -> Iterator[Answer]:
    """Build the answers to the usable rows of a chunk, in order."""
    if not chunk.usable:
        return
    task = predictor.task
    confidence = task.decoding.confidence(chunk.answers)
    for index, row in enumerate(chunk.usable):
        common: dict[str, Any] = {
            "row": row.number,
            "truncated": int(chunk.truncated[index]),
            "windows": int(chunk.windows[index]),
            "abstained": chunk.answers.abstained is not None and bool(chunk.answers.abstained[index]),
            "id": row.id,
            "probability": None if confidence is None else float(confidence[index]),
        }
        yield task.answers.build(chunk.answers, index, row, predictor.space, predictor.best, common)


def answer_rows(predictor: Predictor, source: Source, columns: Columns, *, skip_bad_rows: bool) -> Iterator[Answer]:
    """Answer the rows of a source in order; bad rows are skipped, or reported together in one error at the end."""
    bad_rows = BadRows()
    usable_count = 0
    for chunk in answer_chunks(predictor, source, columns):
        for row in chunk.bad:
            bad_rows.add(row)
        usable_count += len(chunk.usable)
        yield from build_answers(predictor, chunk)
    if not skip_bad_rows:
        bad_rows.raise_if_any(source, usable_count)
