"""Rows of a source answered in their order, a chunk at a time, in bounded memory."""

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

CHUNK_ROWS = 1024  # rows that are read, sorted by length and answered together


@dataclass(frozen=True, kw_only=True)
class AnsweredChunk:
    """Some neighboring rows, and the decoded answers to those that the model can read."""

    rows: list[Row | BadRow]  # as they came
    usable: list[TextRow]
    bad: list[BadRow]
    logits: Any  # of the kept ones; None where there are none
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
    """Every row of a source in its order, a chunk at a time; `skip` rows at the beginning are passed over."""
    known = columns if labels is not None else replace(columns, label=None)
    rows = islice(source.rows(), skip, None)
    while taken := list(islice(rows, chunk)):
        check, space = predictor.task.rows.check_row, labels or predictor.space
        checked = [row if isinstance(row, BadRow) else check(row, known, space) for row in taken]
        yield _answer_chunk(predictor, taken, checked, known)


def _answer_chunk(
    predictor: Predictor, rows: list[Row | BadRow], checked: Sequence[TextRow | BadRow], columns: Columns
) -> AnsweredChunk:
    import numpy as np

    kept = [row for row in checked if isinstance(row, TextRow)]
    bad = [row for row in checked if isinstance(row, BadRow)]
    if kept:
        logits, truncated, windows = predictor.scorer.score(kept, columns)
        answers = predictor.task.decoding.decode(logits, predictor.space, predictor.calibration)
    else:
        logits = None
        truncated, windows = np.zeros(0, np.int32), np.zeros(0, np.int64)
        answers = Answers(labels=np.zeros(0, np.int64))
    return AnsweredChunk(
        rows=rows, usable=kept, bad=bad, logits=logits, answers=answers, truncated=truncated, windows=windows
    )


def build_answers(predictor: Predictor, chunk: AnsweredChunk) -> Iterator[Answer]:
    """The answers to the rows of a chunk that the model can read, in their order."""
    if not chunk.usable:
        return
    task = predictor.task
    confidence = task.decoding.confidence(chunk.answers)
    for place, row in enumerate(chunk.usable):
        common: dict[str, Any] = {
            "row": row.number,
            "truncated": int(chunk.truncated[place]),
            "windows": int(chunk.windows[place]),
            "abstained": chunk.answers.abstained is not None and bool(chunk.answers.abstained[place]),
            "id": row.id,
            "probability": None if confidence is None else float(confidence[place]),
        }
        yield task.answers.build(chunk.answers, place, row, predictor.space, predictor.best, common)


def answer_rows(predictor: Predictor, source: Source, columns: Columns, *, skip_bad_rows: bool) -> Iterator[Answer]:
    """The rows of a source one after the other; those that cannot be used are one error, or left out."""
    bad = BadRows()
    good = 0
    for chunk in answer_chunks(predictor, source, columns):
        for row in chunk.bad:
            bad.add(row)
        good += len(chunk.usable)
        yield from build_answers(predictor, chunk)
    if not skip_bad_rows:
        bad.raise_if_any(source, good)
