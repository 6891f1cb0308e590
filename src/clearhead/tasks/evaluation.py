"""Evaluation of answers: metrics with confidence intervals, errors, calibration and coverage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.html import format_interval, format_number, pluralize, render_table, short_repr
from clearhead.tasks.examples import RowSelection
from clearhead.tasks.task import Answers, Calibration, MetricDetails, Task

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Bin, Interval, LabelScore, PairedResult, Slice

    Array = np.ndarray[Any, Any]

RESAMPLES = 1000  # bootstrap resamples per interval
SLICE_RESAMPLES = 200
MAX_CURVE_POINTS = 50  # stored points of the coverage curve


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """Calibration error before and after temperature scaling."""

    temperature: float
    before: float  # expected calibration error without temperature scaling
    after: float
    bins_before: tuple[Bin, ...]
    bins_after: tuple[Bin, ...]


@dataclass(frozen=True, kw_only=True)
class CoveragePoint:
    """Coverage and accuracy if the model answers only with a confidence of at least `threshold`."""

    threshold: float
    coverage: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The quality of a model's answers on a set of rows."""

    task: str
    kind: str  # kind of labels: classes, multilabel, number, ...
    labels: tuple[str, ...]
    rows: int
    main: str  # name of the main metric
    metrics: dict[str, Interval]
    confusion: tuple[tuple[int, ...], ...] | None = None  # [true][predicted]
    label_scores: tuple[LabelScore, ...] = ()
    calibration: Reliability | None = None
    coverage: tuple[CoveragePoint, ...] = ()
    coverage_area: float | None = None
    abstained: int = 0
    slices: tuple[Slice, ...] = ()
    skipped: dict[str, int] = field(default_factory=dict)  # number of unusable rows per problem
    truncated: int = 0  # rows that were truncated
    windowed: int = 0  # rows that were split into windows
    seconds: float = 0.0
    # metric -> paired comparison with another model on the same rows
    against: dict[str, PairedResult] = field(default_factory=dict)
    picks: RowSelection | None = None  # rows selected for the error analysis

    @property
    def value(self) -> float:
        """The value of the main metric."""
        return self.metrics[self.main].value

    @property
    def headline(self) -> str:
        """The main metric with its interval and the number of rows."""
        return (
            f"{self.main} {self.metrics[self.main]} on {pluralize(self.rows, 'row')}"
            if self.main in self.metrics
            else ""
        )

    def __repr__(self) -> str:
        comparison = self.against.get(self.main)
        difference = None if comparison is None else f"difference {comparison.difference:+.3f}"
        skipped = f"{pluralize(sum(self.skipped.values()), 'row')} skipped" if self.skipped else None
        return short_repr("Evaluation", self.task, self.headline, difference, skipped)

    def to_json(self) -> dict[str, Any]:
        """Plain values as printed by `evaluate --json`; unknown numbers are null."""
        from clearhead.metrics import to_json

        plain: dict[str, Any] = _to_plain(asdict(self))
        plain["metrics"] = to_json(self.metrics)
        plain["picks"] = None if self.picks is None else _to_plain(self.picks.to_json())
        return plain

    def _repr_html_(self) -> str:
        """The metrics as a table, for notebooks."""

        names = [self.main, *(name for name in self.metrics if name != self.main)]
        intervals = [(name, self.metrics[name]) for name in names if name in self.metrics]
        rows = [
            (name, format_number(interval.value), format_interval(interval.low, interval.high))
            for name, interval in intervals
        ]
        notes = [f"{pluralize(sum(self.skipped.values()), 'row')} could not be used"] if self.skipped else []
        return render_table(
            f"{self.task} on {pluralize(self.rows, 'row')}", ("metric", "value", "95 % interval"), rows, notes
        )


def evaluate_logits(
    task: Task,
    space: LabelSpace,
    logits: Any,
    targets: Any,
    calibration: Calibration,
    *,
    slices: Mapping[str, Sequence[Any]] | None = None,
    row_numbers: Sequence[int] | Array | None = None,
    resamples: int = RESAMPLES,
    **counts: Any,
) -> Evaluation:
    """Evaluate logits against targets; `row_numbers` also selects rows for the error analysis."""
    answers = task.decoding.decode(logits, space, calibration)
    details = task.metrics.details(answers, targets, space)
    is_correct, confidence = task.metrics.is_correct(answers, targets), task.decoding.confidence(answers)
    curve, area = _measure_coverage(confidence, is_correct)
    return Evaluation(
        task=task.name,
        kind=space.kind,
        labels=space.names,
        rows=len(targets),
        main=task.metrics.main(space),
        metrics=task.metrics.measure(answers, targets, space, resamples),
        confusion=details.confusion,
        label_scores=details.label_scores,
        calibration=_measure_reliability(task, space, logits, targets, calibration),
        coverage=curve,
        coverage_area=area,
        abstained=0 if answers.abstained is None else int(answers.abstained.sum()),
        slices=_measure_slices(answers, targets, is_correct, slices or {}),
        picks=task.examples.select(answers, targets, space, row_numbers)
        if row_numbers is not None and len(targets)
        else None,
        **counts,
    )


def _measure_reliability(
    task: Task, space: LabelSpace, logits: Any, targets: Any, calibration: Calibration
) -> Reliability | None:
    from clearhead.metrics import expected_calibration_error, reliability_table

    def compute_details(temperature: float) -> MetricDetails:
        return task.metrics.details(
            task.decoding.decode(logits, space, Calibration(temperature=temperature)), targets, space
        )

    before = compute_details(1.0)
    plain, truth = before.probs, before.truth
    scaled = None if plain is None else compute_details(calibration.temperature).probs
    if plain is None or scaled is None or truth is None:
        return None
    return Reliability(
        temperature=calibration.temperature,
        before=float(expected_calibration_error(plain, truth)),
        after=float(expected_calibration_error(scaled, truth)),
        bins_before=reliability_table(plain, truth),
        bins_after=reliability_table(scaled, truth),
    )


def _measure_coverage(
    confidence: Array | None, is_correct: Array | None
) -> tuple[tuple[CoveragePoint, ...], float | None]:
    import numpy as np

    from clearhead.metrics import coverage_curve

    if confidence is None or is_correct is None:
        return (), None
    curve = coverage_curve(confidence, is_correct)
    indices = np.unique(np.linspace(0, len(curve.threshold) - 1, MAX_CURVE_POINTS).round().astype(int))
    points = zip(curve.threshold[indices], curve.coverage[indices], curve.accuracy[indices], strict=True)
    return (
        tuple(CoveragePoint(threshold=float(t), coverage=float(c), accuracy=float(a)) for t, c, a in points),
        curve.area,
    )


def _measure_slices(
    answers: Answers, targets: Array, is_correct: Array | None, columns: Mapping[str, Sequence[Any]]
) -> tuple[Slice, ...]:
    """Accuracy, or mean absolute error of numbers, for each value of each column."""
    from clearhead.metrics import mae, proportion, slice_table

    if not columns:
        return ()
    if is_correct is None:
        return tuple(slice_table(columns, mae, targets, answers.labels, lower_is_worse=False, n=SLICE_RESAMPLES))
    return tuple(slice_table(columns, proportion, is_correct, n=SLICE_RESAMPLES))


def _to_plain(value: Any) -> Any:
    """Convert NaN to None and tuples to lists, recursively."""
    if isinstance(value, dict):
        return {str(key): _to_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
