"""Error examples of the classify task: confident errors, suspicious labels, cells of the confusion matrix."""

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


def select_label_errors(
    answers: Answers, targets: Array, space: LabelSpace, row_numbers: Sequence[int] | Array
) -> RowSelection:
    """Select rows with one or several labels."""
    select = select_multilabel_errors if space.kind == "multilabel" else select_class_errors
    return select(answers, targets, space, row_numbers)


def select_class_errors(
    answers: Answers, targets: Array, space: LabelSpace, row_numbers: Sequence[int] | Array
) -> RowSelection:
    """Select rows with one label."""
    import numpy as np

    assert answers.probs is not None
    probs, predicted = answers.probs, answers.labels
    row_indices = np.arange(len(targets))
    confidence, label_probability = probs[row_indices, predicted], probs[row_indices, targets]
    error_rows = np.flatnonzero(predicted != targets)

    def select(index: int) -> SelectedRow:
        return SelectedRow(
            row=int(row_numbers[index]),
            truth=space.names[targets[index]],
            answer=space.names[predicted[index]],
            confidence=float(confidence[index]),
            label_probability=float(label_probability[index]),
            output_index=int(predicted[index]),
        )

    self_confidence = _mean_self_confidence(probs, targets, len(space))
    suspicious = error_rows[
        confidence[error_rows] >= np.clip(self_confidence[predicted[error_rows]], MIN_CONFIDENCE, HIGH_CONFIDENCE)
    ]
    suspicious = suspicious[confidence[suspicious] - label_probability[suspicious] >= MIN_LABEL_MARGIN]
    margin = label_probability[suspicious] - confidence[suspicious]
    return RowSelection(
        worst=tuple(map(select, select_smallest(error_rows, -confidence[error_rows], MAX_WORST))),
        suspicious=tuple(map(select, select_smallest(suspicious, margin, MAX_SUSPICIOUS))),
        error_count=len(error_rows),
        suspicious_count=len(suspicious),
        cells=tuple(_build_confusion_cells(targets, predicted, confidence, len(space), select)),
    )


def _mean_self_confidence(probs: Array, targets: Array, classes: int) -> Array:
    """(classes,) the mean probability of each class on its own rows, the threshold of confident learning."""
    import numpy as np

    counts = np.bincount(targets, minlength=classes)
    totals = np.bincount(targets, weights=probs[np.arange(len(targets)), targets], minlength=classes)
    return np.asarray(np.where(counts > 0, totals / np.maximum(counts, 1), MIN_CONFIDENCE))


def _build_confusion_cells(
    targets: Array, predicted: Array, confidence: Array, classes: int, select: Callable[[int], SelectedRow]
) -> Iterator[ConfusionCell]:
    """Yield the cells of the confusion matrix: frequent errors first, then correct answers."""
    import numpy as np

    codes = targets.astype(np.int64) * classes + predicted
    cell_codes, counts = np.unique(codes, return_counts=True)
    is_wrong = cell_codes // classes != cell_codes % classes
    for index in np.lexsort((cell_codes, -counts, ~is_wrong))[:MAX_CELLS]:
        rows = np.flatnonzero(codes == cell_codes[index])
        sign = -1 if is_wrong[index] else 1
        yield ConfusionCell(
            true=int(cell_codes[index] // classes),
            predicted=int(cell_codes[index] % classes),
            count=int(counts[index]),
            rows=tuple(map(select, select_smallest(rows, sign * confidence[rows], MAX_ROWS_PER_CELL))),
        )


def select_multilabel_errors(
    answers: Answers, targets: Array, space: LabelSpace, row_numbers: Sequence[int] | Array
) -> RowSelection:
    """Select multilabel rows; the most confident wrong decision represents its row."""
    import numpy as np

    assert answers.probs is not None
    is_predicted = answers.labels == 1
    confidence = np.where(is_predicted, answers.probs, 1 - answers.probs)  # confidence of each decision
    error_confidence = np.where(answers.labels != targets, confidence, -1.0)
    worst_label = error_confidence.argmax(-1)
    row_indices = np.arange(len(targets))
    row_confidence = error_confidence[row_indices, worst_label]
    error_rows = np.flatnonzero(row_confidence >= 0)

    def format_labels(row: Array) -> str:
        return ", ".join(space.names[label] for label in np.flatnonzero(row)) or "(none)"

    def select(index: int) -> SelectedRow:
        label = int(worst_label[index])
        return SelectedRow(
            row=int(row_numbers[index]),
            truth=format_labels(targets[index]),
            answer=format_labels(answers.labels[index]),
            confidence=float(row_confidence[index]),
            label_probability=1 - float(row_confidence[index]),
            output_index=label,
            is_negated=not bool(is_predicted[index, label]),
        )

    positives = np.maximum(targets.sum(0), 1)
    negatives = np.maximum((1 - targets.astype(np.int64)).sum(0), 1)
    positive_confidence = (answers.probs * (targets == 1)).sum(0) / positives
    negative_confidence = ((1 - answers.probs) * (targets == 0)).sum(0) / negatives
    self_confidence = np.where(
        is_predicted[error_rows, worst_label[error_rows]],
        positive_confidence[worst_label[error_rows]],
        negative_confidence[worst_label[error_rows]],
    )
    suspicious = error_rows[
        row_confidence[error_rows] >= np.clip(self_confidence, (1 + MIN_LABEL_MARGIN) / 2, HIGH_CONFIDENCE)
    ]
    return RowSelection(
        worst=tuple(map(select, select_smallest(error_rows, -row_confidence[error_rows], MAX_WORST))),
        suspicious=tuple(map(select, select_smallest(suspicious, -row_confidence[suspicious], MAX_SUSPICIOUS))),
        error_count=len(error_rows),
        suspicious_count=len(suspicious),
    )
