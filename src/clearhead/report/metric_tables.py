"""Evaluations and seeds as rows of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from clearhead.report.formatting import known, metric_name

if TYPE_CHECKING:
    from clearhead.metrics import Interval, LabelScore
    from clearhead.tasks.evaluation import CoveragePoint, Evaluation

SQUARE = 30  # classes of which the whole matrix is shown
STEPS = (0.001, 0.05, 0.15, 0.35, 0.65)  # shares of a row at which a cell becomes darker
PAIRS = 10  # most confused pairs beside a matrix, and twice as many instead of one
MOST_LABELS = 100
MOST_SLICES = 100
COVERED = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3)  # in the table of coverage


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """One metric on each of the parts."""

    name: str
    key: str
    main: bool
    intervals: tuple[Interval | None, ...]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a confusion matrix."""

    count: int
    share: float  # of the row
    level: int  # 0 to 5, for its color
    right: bool


@dataclass(frozen=True, kw_only=True)
class Confused:
    """A label that was taken for another."""

    true: str
    answered: str
    count: int
    share: float  # of the rows that truly have the first label
    cell: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class SeedLine:
    """Mean and spread of a part over seeds."""

    part: str
    mean: float
    spread: float | None  # standard deviation
    low: float
    high: float
    count: int


def metric_rows(parts: Mapping[str, Evaluation]) -> list[MetricRow]:
    """Every metric of every part, the main one first."""
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


def matrix(evaluation: Evaluation) -> list[list[Cell]] | None:
    """The confusion matrix with a color for each cell; None where there is none or it is too large to read."""
    if evaluation.confusion is None or len(evaluation.confusion) > SQUARE:
        return None
    cells = []
    for true, row in enumerate(evaluation.confusion):
        total = sum(row) or 1
        shares = [number / total for number in row]
        cells.append(
            [
                Cell(count=number, share=share, level=sum(share >= step for step in STEPS), right=true == answered)
                for answered, (number, share) in enumerate(zip(row, shares, strict=True))
            ]
        )
    return cells


def confused(evaluation: Evaluation) -> list[Confused]:
    """The pairs of labels that are taken for each other most often, also where no matrix was kept."""
    if evaluation.confusion is not None:
        counted = [
            (true, answered, number, number / sum(row))
            for true, row in enumerate(evaluation.confusion)
            for answered, number in enumerate(row)
            if number and true != answered
        ]
    else:
        having = {index: score.rows for index, score in enumerate(evaluation.label_scores)}
        cells = () if evaluation.picks is None else evaluation.picks.cells
        counted = [
            (cell.true, cell.predicted, cell.count, cell.count / max(having.get(cell.true, 0), cell.count))
            for cell in cells
            if cell.true != cell.predicted
        ]
    pairs = [
        Confused(
            true=evaluation.labels[true],
            answered=evaluation.labels[answered],
            count=number,
            share=share,
            cell=(true, answered),
        )
        for true, answered, number, share in counted
    ]
    few = evaluation.confusion is not None and len(evaluation.confusion) <= SQUARE
    return sorted(pairs, key=lambda pair: (-pair.count, -pair.share))[: PAIRS if few else 2 * PAIRS]


def label_rows(evaluation: Evaluation) -> list[LabelScore]:
    """Labels in their order; of very many, the most frequent."""
    if len(evaluation.label_scores) <= MOST_LABELS:
        return list(evaluation.label_scores)
    return sorted(evaluation.label_scores, key=lambda score: -score.rows)[:MOST_LABELS]


def covered(points: Sequence[CoveragePoint]) -> list[CoveragePoint]:
    """The points of a curve that are nearest to round shares of the rows."""
    nearest = [min(points, key=lambda point: abs(point.coverage - share)) for share in COVERED]
    return list(dict.fromkeys(nearest))


def seed_lines(seeds: Sequence[Mapping[str, Any]]) -> list[SeedLine]:
    """Mean and spread of what several seeds reached, test before dev; nothing where there is one seed."""
    lines = []
    for part in ("test", "dev"):
        values = [value for seed in seeds if (value := known(seed.get(part))) is not None]
        if len(seeds) > 1 and values:
            lines.append(
                SeedLine(
                    part=part,
                    mean=mean(values),
                    spread=stdev(values) if len(values) > 1 else None,
                    low=min(values),
                    high=max(values),
                    count=len(values),
                )
            )
    return lines
