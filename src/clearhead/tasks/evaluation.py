"""How good answers are: metrics with intervals, where they go wrong, how far their confidence can be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.html import format_interval, format_number, render_table, short_repr
from clearhead.tasks.examples import RowSelection
from clearhead.tasks.task import Answers, Calibration, MetricDetails, Task

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Bin, Interval, LabelScore, PairedResult, Slice

    Array = np.ndarray[Any, Any]

RESAMPLES = 1000  # resamples for an interval
SLICE_RESAMPLES = 200
MAX_CURVE_POINTS = 50  # points of a curve that are kept


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """How far confidence and accuracy are apart, before and after temperature scaling."""

    temperature: float
    before: float  # expected calibration error of the plain probabilities
    after: float
    bins_before: tuple[Bin, ...]
    bins_after: tuple[Bin, ...]


@dataclass(frozen=True, kw_only=True)
class CoveragePoint:
    """Answer only where the confidence is at least `threshold`: how many rows that leaves, and how many are right."""

    threshold: float
    coverage: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a model's answers are worth on some rows."""

    task: str
    kind: str  # of labels: classes, multilabel or number
    labels: tuple[str, ...]
    rows: int
    main: str  # the metric that counts first
    metrics: dict[str, Interval]
    confusion: tuple[tuple[int, ...], ...] | None = None  # [true][answered]
    label_scores: tuple[LabelScore, ...] = ()
    calibration: Reliability | None = None
    coverage: tuple[CoveragePoint, ...] = ()
    coverage_area: float | None = None
    abstained: int = 0
    slices: tuple[Slice, ...] = ()
    skipped: dict[str, int] = field(default_factory=dict)  # bad rows by problem
    truncated: int = 0  # rows of which something was cut
    windowed: int = 0  # rows that were read in windows
    seconds: float = 0.0
    against: dict[str, PairedResult] = field(
        default_factory=dict
    )  # metric -> this model minus another on the same rows
    picks: RowSelection | None = None  # rows that are worth a look

    @property
    def value(self) -> float:
        """The main metric."""
        return self.metrics[self.main].value

    @property
    def headline(self) -> str:
        """The main metric with its interval, and on how many rows."""
        return f"{self.main} {self.metrics[self.main]} on {self.rows:,} rows" if self.main in self.metrics else ""

    def __repr__(self) -> str:
        against = self.against.get(self.main)
        beside = None if against is None else f"difference {against.difference:+.3f}"
        skipped = f"{sum(self.skipped.values()):,} rows skipped" if self.skipped else None
        return short_repr("Evaluation", self.task, self.headline, beside, skipped)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values, as `evaluate --json` prints it; what is not known is null."""
        from clearhead.metrics import to_json

        plain: dict[str, Any] = _plain(asdict(self))
        plain["metrics"] = to_json(self.metrics)
        plain["picks"] = None if self.picks is None else _plain(self.picks.to_json())
        return plain

    def _repr_html_(self) -> str:
        """The metrics as a table in a notebook."""

        names = [self.main, *(name for name in self.metrics if name != self.main)]
        found = [(name, self.metrics[name]) for name in names if name in self.metrics]
        rows = [(name, format_number(one.value), format_interval(one.low, one.high)) for name, one in found]
        notes = [f"{sum(self.skipped.values()):,} rows could not be used"] if self.skipped else []
        return render_table(f"{self.task} on {self.rows:,} rows", ("metric", "value", "95 % interval"), rows, notes)


def evaluate_logits(
    task: Task,
    space: LabelSpace,
    logits: Any,
    targets: Any,
    calibration: Calibration,
    *,
    slices: Mapping[str, Sequence[Any]] | None = None,
    numbers: Sequence[int] | Array | None = None,
    draws: int = RESAMPLES,
    **counts: Any,
) -> Evaluation:
    """Measure what logits say of rows whose labels are known; with their `numbers`, some are picked to be looked at."""
    answers = task.decoding.decode(logits, space, calibration)
    details = task.metrics.details(answers, targets, space)
    right, sure = task.metrics.is_correct(answers, targets), task.decoding.confidence(answers)
    curve, area = _coverage(sure, right)
    return Evaluation(
        task=task.name,
        kind=space.kind,
        labels=space.names,
        rows=len(targets),
        main=task.metrics.main(space),
        metrics=task.metrics.measure(answers, targets, space, draws),
        confusion=details.confusion,
        label_scores=details.label_scores,
        calibration=_calibration(task, space, logits, targets, calibration),
        coverage=curve,
        coverage_area=area,
        abstained=0 if answers.abstained is None else int(answers.abstained.sum()),
        slices=_slices(answers, targets, right, slices or {}),
        picks=task.examples.select(answers, targets, space, numbers) if numbers is not None and len(targets) else None,
        **counts,
    )


def _calibration(
    task: Task, space: LabelSpace, logits: Any, targets: Any, calibration: Calibration
) -> Reliability | None:
    from clearhead.metrics import expected_calibration_error, reliability_table

    def at(temperature: float) -> MetricDetails:
        return task.metrics.details(
            task.decoding.decode(logits, space, Calibration(temperature=temperature)), targets, space
        )

    before = at(1.0)
    plain, truth = before.probs, before.truth
    scaled = None if plain is None else at(calibration.temperature).probs
    if plain is None or scaled is None or truth is None:
        return None
    return Reliability(
        temperature=calibration.temperature,
        before=float(expected_calibration_error(plain, truth)),
        after=float(expected_calibration_error(scaled, truth)),
        bins_before=reliability_table(plain, truth),
        bins_after=reliability_table(scaled, truth),
    )


def _coverage(sure: Array | None, right: Array | None) -> tuple[tuple[CoveragePoint, ...], float | None]:
    import numpy as np

    from clearhead.metrics import coverage_curve

    if sure is None or right is None:
        return (), None
    found = coverage_curve(sure, right)
    places = np.unique(np.linspace(0, len(found.threshold) - 1, MAX_CURVE_POINTS).round().astype(int))
    points = zip(found.threshold[places], found.coverage[places], found.accuracy[places], strict=True)
    return (
        tuple(CoveragePoint(threshold=float(t), coverage=float(c), accuracy=float(a)) for t, c, a in points),
        found.area,
    )


def _slices(
    answers: Answers, targets: Array, right: Array | None, columns: Mapping[str, Sequence[Any]]
) -> tuple[Slice, ...]:
    """By each column: the share of right answers, or the mean error of numbers."""
    from clearhead.metrics import mae, proportion, slice_table

    if not columns:
        return ()
    if right is None:
        return tuple(slice_table(columns, mae, targets, answers.labels, lower_is_worse=False, n=SLICE_RESAMPLES))
    return tuple(slice_table(columns, proportion, right, n=SLICE_RESAMPLES))


def _plain(value: Any) -> Any:
    """NaN as null, tuples as lists, all the way down."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
