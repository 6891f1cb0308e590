"""Rows selected for the error analysis, and the examples that a report shows: truth, answer and word importance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_WORST = 10
MAX_SUSPICIOUS = 10
MAX_ROWS_PER_CELL = 5
MAX_CELLS = 60  # cells of the confusion matrix with examples, most frequent errors first
MIN_CONFIDENCE = 0.5  # a less confident answer does not make the label suspicious
HIGH_CONFIDENCE = 0.9  # a wrong answer of this confidence always makes the label suspicious
MIN_LABEL_MARGIN = 0.5  # minimum difference between the probabilities of the answer and of a suspicious label
OUTLIER_DEVIATIONS = 3.5  # errors of a number beyond this many robust standard deviations are outliers

# field -> its key in metrics.json and `evaluate --json`
ROW_KEYS = {
    "confidence": "sure",
    "label_probability": "given",
    "output_index": "watched",
    "is_negated": "against",
    "spans": "marks",
    "counts_words": "words",
    "option_indices": "chosen",
    "word_range": "place",
    "predicted_tags": "tags",
}


SpanKind = Literal["true", "predicted", "both"]


@dataclass(frozen=True, kw_only=True)
class LabeledSpan:
    """A span of a text with a label that is true, predicted, or both."""

    start: int
    end: int
    label: str
    kind: SpanKind


@dataclass(frozen=True, kw_only=True)
class SelectedRow:
    """A row selected for the error analysis, with its true and predicted answer."""

    row: int  # row number in the source
    truth: str
    answer: str
    confidence: float | None = None  # probability of the most confident wrong decision, or of the answer
    label_probability: float | None = None  # predicted probability of the true label
    error: float | None = None  # numbers only: answer minus truth
    output_index: int | None = None  # output whose probability occlusion measures; None: the answer is a number
    is_negated: bool = False  # multilabel only: the label of `output_index` was not predicted
    spans: tuple[LabeledSpan, ...] = ()  # true and predicted spans or entities
    counts_words: bool = False  # whether the offsets of `spans` count words instead of characters
    options: tuple[str, ...] = ()  # multiple choice only
    option_indices: tuple[int, int] | None = None  # multiple choice only: true and predicted option
    word_range: tuple[int, int] | None = None  # tags only: the wrongly tagged words, [first, last)
    predicted_tags: tuple[int, ...] = ()  # tags only: the predicted tag of each word in `word_range`

    def to_json(self) -> dict[str, Any]:
        """Plain values under their stored keys."""
        return {ROW_KEYS.get(name, name): value for name, value in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class ConfusionCell:
    """Rows with the same true and predicted label."""

    true: int
    predicted: int
    count: int
    rows: tuple[SelectedRow, ...]  # the most confident errors, or the least confident correct answers


@dataclass(frozen=True, kw_only=True)
class RowSelection:
    """The rows selected for the error analysis, without their texts."""

    worst: tuple[SelectedRow, ...] = ()
    suspicious: tuple[SelectedRow, ...] = ()
    error_count: int = 0  # wrong answers; numbers: all measured rows
    suspicious_count: int = 0  # all suspicious labels, also those not in `suspicious`
    cells: tuple[ConfusionCell, ...] = ()

    def iter_rows(self) -> Iterator[SelectedRow]:
        """Iterate over the rows of all lists; a row in several lists occurs several times."""
        yield from self.worst
        yield from self.suspicious
        for cell in self.cells:
            yield from cell.rows

    def to_json(self) -> dict[str, Any]:
        """Plain values under their stored keys, without the many rows of the cells."""
        return {
            "worst": [row.to_json() for row in self.worst],
            "suspicious": [row.to_json() for row in self.suspicious],
            "wrong": self.error_count,
            "doubtful": self.suspicious_count,
        }


@dataclass(frozen=True, kw_only=True)
class WordImportance:
    """A word, or several consecutive words, and how much the answer depends on it."""

    start: int
    end: int
    weight: float  # probability (or number) with the word minus without it
    in_second_text: bool = False


@dataclass(frozen=True, kw_only=True)
class Example:
    """A selected row with its texts, shortened if they are long."""

    selected: SelectedRow
    text: str
    text_b: str | None = None
    words: tuple[WordImportance, ...] | None = None  # None: not computed
    full_value: float | None = None  # measured probability (or number) for the full text
    target_name: str | None = None  # what the value measures; None: the answer
    is_truncated: bool = False

    @property
    def spans(self) -> tuple[LabeledSpan, ...]:
        """Spans and entities in the text; a text with spans is never truncated."""
        return self.selected.spans


@dataclass(frozen=True, kw_only=True)
class CellExamples:
    """A cell of the confusion matrix with the examples shown for it."""

    cell: ConfusionCell
    examples: tuple[Example, ...]


@dataclass(frozen=True, kw_only=True)
class PartExamples:
    """The examples of one part: train, dev or test."""

    worst: tuple[Example, ...] = ()
    suspicious: tuple[Example, ...] = ()
    cells: tuple[CellExamples, ...] = ()
    explained: int = 0  # rows with word importance
    scored: int = 0  # shortened texts scored for it
    seconds: float = 0.0


def select_smallest(rows: Array, keys: Array, count: int) -> list[int]:
    """Select the rows with the smallest keys; ties keep their order."""
    import numpy as np

    return [int(row) for row in rows[np.argsort(keys, kind="stable")[:count]]]
