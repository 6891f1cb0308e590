"""A trained model that answers rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.checkpoint.passport import TrainingRecord
from clearhead.data import Columns, LabelSpace, Source, open_source
from clearhead.html import short_repr
from clearhead.predict.column_roles import find_columns
from clearhead.predict.scoring import Scorer
from clearhead.predict.stream import answer_rows
from clearhead.tasks import Calibration, Task
from clearhead.tasks.answer import Answer


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """A trained model with its task, labels and calibration, ready to answer."""

    task: Task
    space: LabelSpace
    calibration: Calibration
    scorer: Scorer
    method: str
    reference: str
    folder: Path
    trained: TrainingRecord | None = None
    best: int = 5  # number of answers listed for a question

    def __repr__(self) -> str:
        labels = self.space.names
        described_labels = ", ".join(labels[:5]) + (f", ... ({len(labels):,} labels)" if len(labels) > 5 else "")
        return short_repr("Predictor", f"{self.task.name} by {self.method}", described_labels, f"folder {self.folder}")

    @property
    def reads_pairs(self) -> bool | None:
        """Whether it was trained on pairs of texts; None if unknown."""
        return None if self.trained is None else "text_b" in self.trained.columns

    def resolve_columns(
        self,
        source: Source,
        text: str | None = None,
        text_b: str | None = None,
        label: str | None = None,
        *,
        options: str | None = None,
        labeled: bool = True,
    ) -> Columns:
        """Resolve the columns to read: as requested, as in training, or detected."""
        names = {"text": text, "text_b": text_b, "label": label}
        return find_columns(self, source, names, options, labeled=labeled)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that it was trained on."""
        return () if self.trained is None else (*self.trained.columns.values(), *self.trained.options)

    def answer(
        self, rows: Sequence[Any], text: str | None = None, text_b: str | None = None, *, options: str | None = None
    ) -> list[Answer]:
        """Answer texts, pairs of texts or dicts, in order; `text`, `text_b` and `options` name the keys of dicts."""
        source = open_source(rows)
        columns = self.resolve_columns(source, text, text_b, options=options, labeled=False)
        return list(answer_rows(self, source, columns, skip_bad_rows=False))
