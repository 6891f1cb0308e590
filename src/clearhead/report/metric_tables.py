"""Turn evaluations and seeds into table rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from clearhead.report.formatting import finite_number, metric_name

if TYPE_CHECKING:
    from clearhead.metrics import Interval, LabelScore
    from clearhead.tasks.evaluation import CoveragePoint, Evaluation

MAX_MATRIX_LABELS = 30  # more labels get no matrix
SHADE_STEPS = (0.001, 0.05, 0.15, 0.35, 0.65)  # shares of a row at which the shade darkens
MAX_PAIRS = 10  # beside a matrix; twice as many without one
MAX_LABELS = 100
MAX_SLICES = 100
TABLE_COVERAGES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3)  # rows of the coverage table


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """One metric on each part."""

    name: str
    key: str
    main: bool
    intervals: tuple[Interval | None, ...]


@dataclass(frozen=True, kw_only=True)
class MatrixCell:
    """One cell of a confusion matrix."""

    count: int
    share: float  # of the row
    shade: int  # 0 to 5, for its color
    is_correct: bool


@dataclass(frozen=True, kw_only=True)
class ConfusedPair:
    """A label that is predicted as another one."""

    true: str
    answered: str
    count: int
    share: float  # of the rows with the true label
    cell: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class SeedSummary:
    """Mean and standard deviation of a part over seeds."""

    part: str
    mean: float
    spread: float | None  # standard deviation
    low: float
    high: float
    count: int


def list_metrics(parts: Mapping[str, Evaluation]) -> list[MetricRow]:
    """List every metric of every part, the main metric first."""
    main = next(iter(parts.values())).main
    names = dict.fromkeys([main, *(name for evaluation in parts.values() for name in evaluation.metrics)])
    return [
        MetricRow(
            name=metric_name(name),
            key=name,
            main=name == main,
            intervals=tuple(evaluation.metrics.get(name) for evaluation in parts.values()),
        )
        for name in list(names)[:50]
    ]


def shade_matrix(evaluation: Evaluation) -> list[list[MatrixCell]] | None:
    """Return the confusion matrix with a shade per cell, or None if missing or too large."""
    if evaluation.confusion is None or len(evaluation.confusion) > MAX_MATRIX_LABELS:
        return None
    cells = []
    for true, row in enumerate(evaluation.confusion):
        total = sum(row) or 1
        shares = [number / total for number in row]
        cells.append(
            [
                MatrixCell(
                    count=number,
                    share=share,
                    shade=sum(share >= step for step in SHADE_STEPS),
                    is_correct=true == answered,
                )
                for answered, (number, share) in enumerate(zip(row, shares, strict=True))
            ]
        )
    return cells


def find_confused_pairs(evaluation: Evaluation) -> list[ConfusedPair]:
    """List the most frequently confused label pairs, even if no matrix was stored."""
    if evaluation.confusion is not None:
        counts = [
            (true, predicted, count, count / sum(row))
            for true, row in enumerate(evaluation.confusion)
            for predicted, count in enumerate(row)
            if count and true != predicted
        ]
    else:
        label_rows = {index: score.rows for index, score in enumerate(evaluation.label_scores)}
        cells = () if evaluation.picks is None else evaluation.picks.cells
        counts = [
            (cell.true, cell.predicted, cell.count, cell.count / max(label_rows.get(cell.true, 0), cell.count))
            for cell in cells
            if cell.true != cell.predicted
        ]
    pairs = [
        ConfusedPair(
            true=evaluation.labels[true],
            answered=evaluation.labels[predicted],
            count=count,
            share=share,
            cell=(true, predicted),
        )
        for true, predicted, count, share in counts
    ]
    few = evaluation.confusion is not None and len(evaluation.confusion) <= MAX_MATRIX_LABELS
    return sorted(pairs, key=lambda pair: (-pair.count, -pair.share))[: MAX_PAIRS if few else 2 * MAX_PAIRS]


def select_labels(evaluation: Evaluation) -> list[LabelScore]:
    """Return the scores of all labels, or of the most frequent ones if there are many."""
    if len(evaluation.label_scores) <= MAX_LABELS:
        return list(evaluation.label_scores)
    return sorted(evaluation.label_scores, key=lambda score: -score.rows)[:MAX_LABELS]


def select_coverage_points(points: Sequence[CoveragePoint]) -> list[CoveragePoint]:
    """Select the curve points nearest to round coverages."""
    nearest = [min(points, key=lambda point: abs(point.coverage - coverage)) for coverage in TABLE_COVERAGES]
    return list(dict.fromkeys(nearest))


def summarize_seeds(seeds: Sequence[Mapping[str, Any]]) -> list[SeedSummary]:
    """Summarize the scores of several seeds, test before dev; empty for a single seed."""
    lines = []
    for part in ("test", "dev"):
        values = [value for seed in seeds if (value := finite_number(seed.get(part))) is not None]
        if len(seeds) > 1 and values:
            lines.append(
                SeedSummary(
                    part=part,
                    mean=mean(values),
                    spread=stdev(values) if len(values) > 1 else None,
                    low=min(values),
                    high=max(values),
                    count=len(values),
                )
            )
    return lines
