"""A trained folder in use: rows in, answers out, in the order they came and in bounded memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.passport import Trained
from clearhead.data import BadRow, Columns, LabelSpace, Row, Source, TextRow
from clearhead.predict.column_roles import find_columns
from clearhead.predict.scoring import Scorer
from clearhead.tasks import Reading, Task
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

log = logging.getLogger("clearhead")

CHUNK = 1024  # rows that are read, sorted by length and answered together


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some neighbouring rows and what the model says of those that it can read."""

    rows: list[Row | BadRow]  # as they came
    kept: list[TextRow]
    bad: list[BadRow]
    logits: Any  # of the kept ones; None where there are none
    answers: Answers
    truncated: Array
    windows: Array


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """Anything that was trained, ready to answer."""

    task: Task
    space: LabelSpace
    reading: Reading
    scorer: Scorer
    method: str
    reference: str
    folder: Path
    trained: Trained | None = None
    best: int = 5  # answers to a question that are listed

    def __repr__(self) -> str:
        from clearhead.html import one_line

        labels = self.space.names
        some = ", ".join(labels[:5]) + (f", ... ({len(labels):,} labels)" if len(labels) > 5 else "")
        return one_line("Predictor", f"{self.task.name} by {self.method}", some, f"folder {self.folder}")

    @property
    def reads_two(self) -> bool | None:
        """Whether it was trained on two texts; None: nobody knows."""
        return None if self.trained is None else "text_b" in self.trained.columns

    def columns_in(
        self,
        source: Source,
        text: str | None = None,
        text_b: str | None = None,
        label: str | None = None,
        *,
        options: str | None = None,
        labelled: bool = True,
    ) -> Columns:
        """The columns to read: as said, as in training, or as they look."""
        names = {"text": text, "text_b": text_b, "label": label}
        return find_columns(self, source, names, options, labelled=labelled)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that it was trained on: what a table that it can read may have."""
        return () if self.trained is None else (*self.trained.columns.values(), *self.trained.options)

    def answer(
        self,
        source: Source,
        columns: Columns,
        *,
        labels: LabelSpace | None = None,
        skip: int = 0,
        chunk: int = CHUNK,
    ) -> Iterator[Chunk]:
        """Every row of a source in its order, a chunk at a time; `skip` rows at the beginning are passed over."""
        known = columns if labels is not None else replace(columns, label=None)
        rows = islice(source.rows(), skip, None)
        while taken := list(islice(rows, chunk)):
            check, space = self.task.form.check, labels or self.space
            checked = [row if isinstance(row, BadRow) else check(row, known, space) for row in taken]
            yield self._answered(taken, checked, known)

    def _answered(self, rows: list[Row | BadRow], checked: Sequence[TextRow | BadRow], columns: Columns) -> Chunk:
        import numpy as np

        kept = [row for row in checked if isinstance(row, TextRow)]
        bad = [row for row in checked if isinstance(row, BadRow)]
        if kept:
            logits, truncated, windows = self.scorer.score(kept, columns)
            answers = self.task.read(logits, self.space, self.reading)
        else:
            logits = None
            truncated, windows = np.zeros(0, np.int32), np.zeros(0, np.int64)
            answers = Answers(labels=np.zeros(0, np.int64))
        return Chunk(
            rows=rows, kept=kept, bad=bad, logits=logits, answers=answers, truncated=truncated, windows=windows
        )
