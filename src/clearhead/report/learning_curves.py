"""Draw loss, learning rate and dev score from a training log of any length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from clearhead.explain.svg import Plot, Point, index_axis, linear_axis
from clearhead.report.formatting import capitalize_first, finite_number, format_figure

MAX_POINTS = 240  # of a curve; the picture cannot resolve more
MAX_SINGLE_STEPS = 600  # longer logs are drawn as a band
SMOOTHING_WINDOWS = 12  # independent windows of the smoothed curve
MAX_DOTS = 60
MAX_COUNT = 10**12  # larger step numbers are invalid
MAX_EPOCHS = 100  # rows of the table


@dataclass(frozen=True, kw_only=True)
class CurveFigure:
    """A picture with its caption."""

    svg: Markup
    caption: str


@dataclass(frozen=True, kw_only=True)
class EpochRow:
    """One row of the epoch table."""

    number: int  # from 1
    steps: int
    loss: float | None  # the mean of its steps
    score: float | None
    best: bool


@dataclass(frozen=True, kw_only=True)
class LearningCurves:
    """The pictures and epochs of a training log."""

    figures: tuple[CurveFigure, ...]
    epochs: tuple[EpochRow, ...]
    omitted_epochs: int  # earlier epochs that the table does not show
    invalid_steps: int  # steps with a non-finite loss


@dataclass(frozen=True)
class _StepBin:
    """Consecutive steps that share one point of a curve."""

    step: float
    mean: float
    low: float
    high: float


def draw_curves(log: Sequence[Mapping[str, Any]], metric: str | None) -> LearningCurves | None:
    """Draw the curves of a log, or return None without values; `metric` names the dev score."""
    lines = sorted((line for line in log if _parse_count(line.get("step")) is not None), key=lambda line: line["step"])
    losses, rates = _read_series(lines, "loss"), _read_series(lines, "rate")
    epochs = _summarize_epochs(lines)
    if not losses and not rates and not any(epoch.score is not None for epoch in epochs):
        return None
    figures = [_draw_loss(losses)] if losses else []
    figures += [_draw_rate(rates)] if rates else []
    figures += _draw_scores(epochs, metric)
    invalid_steps = sum("loss" in line and finite_number(line["loss"]) is None for line in lines)
    listed = epochs if len(epochs) <= MAX_EPOCHS else epochs[-MAX_EPOCHS:]
    return LearningCurves(
        figures=tuple(figures),
        epochs=tuple(listed),
        omitted_epochs=len(epochs) - len(listed),
        invalid_steps=invalid_steps,
    )


def _parse_count(value: Any) -> int | None:
    """Return a valid step or epoch number, or None."""
    number = finite_number(value)
    return None if number is None or not 0 <= number < MAX_COUNT else int(number)


def _read_series(lines: Iterable[Mapping[str, Any]], name: str) -> list[Point]:
    return [(float(line["step"]), value) for line in lines if (value := finite_number(line.get(name))) is not None]


def thin_points(points: Sequence[Point], max_points: int = MAX_POINTS) -> list[_StepBin]:
    """Merge points into at most `max_points` bins with mean, minimum and maximum, so that peaks are kept."""
    count = min(max_points, len(points))
    bounds = [index * len(points) // count for index in range(count + 1)] if count else []
    bins = []
    for start, end in pairwise(bounds):
        bin_points = points[start:end]
        values = [value for _, value in bin_points]
        bins.append(
            _StepBin((bin_points[0][0] + bin_points[-1][0]) / 2, sum(values) / len(values), min(values), max(values))
        )
    return bins


def smooth_values(values: Sequence[float], radius: int) -> list[float]:
    """Average each value with up to `radius` neighbors on either side, with fewer at the ends."""
    means = []
    for index in range(len(values)):
        width = max(
            min(radius, index, len(values) - 1 - index), radius // 2
        )  # a narrower window is less biased at the ends
        neighbors = values[max(index - width, 0) : index + width + 1]
        means.append(sum(neighbors) / len(neighbors))
    return means


def _draw_loss(points: list[Point]) -> CurveFigure:
    bins = thin_points(points)
    radius = len(bins) // (2 * SMOOTHING_WINDOWS)
    smooth = smooth_values([bin_.mean for bin_ in bins], radius)
    losses = [value for _, value in points]
    window = max(len(losses) // 20, 1)  # a single step is too noisy
    first, last = format_figure(sum(losses[:window]) / window), format_figure(sum(losses[-window:]) / window)
    summary = f"The loss starts at about {first} and ends at about {last}."
    x = index_axis(points[0][0], points[-1][0], "step")
    values = [bound for bin_ in bins for bound in (bin_.low, bin_.high)]
    plot = Plot("loss", "Loss by step", summary, x, linear_axis(values, "loss", zero=min(values) >= 0))
    if len(points) > MAX_SINGLE_STEPS:
        plot.band([(bin_.step, bin_.low) for bin_ in bins], [(bin_.step, bin_.high) for bin_ in bins], "band")
        faint = "the band spans the lowest and highest loss of neighboring steps"
    else:
        plot.line(points, "faint")
        faint = "the faint line shows every step"
    plot.line([(bin_.step, value) for bin_, value in zip(bins, smooth, strict=True)], "curve")
    return CurveFigure(
        svg=plot.svg(), caption=f"Loss by step, smoothed: about {first} at the start, {last} at the end; {faint}."
    )


def _draw_rate(points: list[Point]) -> CurveFigure:
    bins = thin_points(points)
    peak = format_figure(max(value for _, value in points))
    summary = f"The learning rate peaks at {peak} and is {format_figure(points[-1][1])} at the end."
    x = index_axis(points[0][0], points[-1][0], "step")
    plot = Plot(
        "rate", "Learning rate by step", summary, x, linear_axis((bin_.mean for bin_ in bins), "rate", zero=True)
    )
    plot.line([(bin_.step, bin_.mean) for bin_ in bins], "curve other")
    return CurveFigure(svg=plot.svg(), caption=f"Learning rate by step; the maximum is {peak}.")


def _draw_scores(epochs: Sequence[EpochRow], metric: str | None) -> list[CurveFigure]:
    points = [(float(epoch.number), epoch.score) for epoch in epochs if epoch.score is not None]
    if not points:
        return []
    name = "score" if metric is None else metric if metric.isupper() else metric.lower()  # BLEU, F1 stay as they are
    best = next((epoch for epoch in reversed(epochs) if epoch.best and epoch.score is not None), None)
    best_note = "" if best is None else f"; epoch {best.number} is the best, with {format_figure(best.score)}"
    summary = f"{name} on the dev rows after each epoch: {format_figure(points[-1][1])} after the last one{best_note}."
    curve = points if len(points) <= MAX_POINTS else [(part.step, part.mean) for part in thin_points(points)]
    plot = Plot(
        "score",
        "Dev score by epoch",
        summary,
        index_axis(points[0][0], points[-1][0], "epoch"),
        linear_axis((value for _, value in points), f"dev {name}"),
    )
    plot.line(curve, "curve")
    if len(points) <= MAX_DOTS:
        for number, value in points:
            plot.dot((number, value), 3.5, "curve dot", f"epoch {number:g}: {format_figure(value)}")
    if best is not None and best.score is not None:
        plot.dot((best.number, best.score), 7.0, "ring", f"the best epoch: {best.number}")
    chose = " The ring marks the selected epoch. Because these rows select the epoch, this is not a test result."
    too_few = " These rows did not select the epoch: the last one was used."
    caption = f"{capitalize_first(summary)}{too_few if best is None else chose}"
    return [CurveFigure(svg=plot.svg(), caption=caption)]


def _summarize_epochs(lines: Sequence[Mapping[str, Any]]) -> list[EpochRow]:
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for line in lines:
        number = _parse_count(line.get("epoch"))
        if number is not None:
            groups.setdefault(number, []).append(line)
    epochs = []
    for number, epoch_lines in sorted(groups.items()):
        losses = [value for _, value in _read_series(epoch_lines, "loss")]
        scored = [line for line in epoch_lines if finite_number(line.get("score")) is not None]
        epochs.append(
            EpochRow(
                number=number + 1,
                steps=len(epoch_lines),
                loss=sum(losses) / len(losses) if losses else None,
                score=finite_number(scored[-1]["score"]) if scored else None,
                best=bool(scored and scored[-1].get("best")),
            )
        )
    last = max((index for index, epoch in enumerate(epochs) if epoch.best), default=None)  # each was the best so far
    return [replace(epoch, best=index == last) for index, epoch in enumerate(epochs)]
