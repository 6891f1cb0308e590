"""How learning went: the loss, the rate and the dev score, from a log of any length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from clearhead.explain.svg import Plot, Point, index_axis, linear_axis
from clearhead.report.formatting import figure, known, sentence

POINTS = 240  # of a curve: more than a picture of this width can show
SINGLE = 600  # steps that can be drawn one by one
SMOOTH = 12  # so many stretches of the curve are averaged into one
MOST_DOTS = 60
MOST_COUNTED = 10**12  # no run has so many steps
MOST_EPOCHS = 100  # in the table


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture and the sentence below it."""

    svg: Markup
    caption: str


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One line of the table beside the curves."""

    number: int  # counted from 1, as people do
    steps: int
    loss: float | None  # the mean of its steps
    score: float | None
    best: bool


@dataclass(frozen=True, kw_only=True)
class Curves:
    """What a log says."""

    figures: tuple[Figure, ...]
    epochs: tuple[Epoch, ...]
    left_out: int  # epochs that the table has no room for
    broken: int  # steps whose loss is no number


@dataclass(frozen=True)
class _Stretch:
    """Some steps in a row, as one point of a curve."""

    step: float
    mean: float
    low: float
    high: float


def curves(log: Sequence[Mapping[str, Any]], metric: str | None) -> Curves | None:
    """Pictures of a log, None when there is nothing in it; `metric` is what the dev score measures."""
    lines = sorted((line for line in log if _parse_count(line.get("step")) is not None), key=lambda line: line["step"])
    losses, rates = _series(lines, "loss"), _series(lines, "rate")
    epochs = _epochs(lines)
    if not losses and not rates and not any(epoch.score is not None for epoch in epochs):
        return None
    figures = [_loss(losses)] if losses else []
    figures += [_rate(rates)] if rates else []
    figures += _scores(epochs, metric)
    broken = sum("loss" in line and known(line["loss"]) is None for line in lines)
    listed = epochs if len(epochs) <= MOST_EPOCHS else epochs[-MOST_EPOCHS:]
    return Curves(figures=tuple(figures), epochs=tuple(listed), left_out=len(epochs) - len(listed), broken=broken)


def _parse_count(value: Any) -> int | None:
    """The number of a step or an epoch, if it is one."""
    number = known(value)
    return None if number is None or not 0 <= number < MOST_COUNTED else int(number)


def _series(lines: Iterable[Mapping[str, Any]], name: str) -> list[Point]:
    return [(float(line["step"]), value) for line in lines if (value := known(line.get(name))) is not None]


def thin_points(points: Sequence[Point], most: int = POINTS) -> list[_Stretch]:
    """As many stretches of steps as fit, each with its mean, least and most: peaks are not lost."""
    count = min(most, len(points))
    bounds = [index * len(points) // count for index in range(count + 1)] if count else []
    stretches = []
    for begin, end in pairwise(bounds):
        part = points[begin:end]
        values = [value for _, value in part]
        stretches.append(_Stretch((part[0][0] + part[-1][0]) / 2, sum(values) / len(values), min(values), max(values)))
    return stretches


def smooth_values(values: Sequence[float], reach: int) -> list[float]:
    """Each value as the mean of itself and up to `reach` neighbours on either side, of fewer at the ends."""
    means = []
    for index in range(len(values)):
        width = max(min(reach, index, len(values) - 1 - index), reach // 2)  # a narrower mean leans less at the ends
        part = values[max(index - width, 0) : index + width + 1]
        means.append(sum(part) / len(part))
    return means


def _loss(points: list[Point]) -> Figure:
    stretches = thin_points(points)
    reach = len(stretches) // (2 * SMOOTH)
    smooth = smooth_values([part.mean for part in stretches], reach)
    losses = [value for _, value in points]
    window = max(len(losses) // 20, 1)  # one step alone says little
    first, last = figure(sum(losses[:window]) / window), figure(sum(losses[-window:]) / window)
    summary = f"The loss starts at about {first} and ends at about {last}."
    x = index_axis(points[0][0], points[-1][0], "step")
    values = [bound for part in stretches for bound in (part.low, part.high)]
    plot = Plot("loss", "Loss by step", summary, x, linear_axis(values, "loss", zero=min(values) >= 0))
    if len(points) > SINGLE:
        plot.band([(part.step, part.low) for part in stretches], [(part.step, part.high) for part in stretches], "band")
        faint = "the band spans the lowest and highest loss of neighbouring steps"
    else:
        plot.line(points, "faint")
        faint = "the faint line is every single step"
    plot.line([(part.step, value) for part, value in zip(stretches, smooth, strict=True)], "curve")
    return Figure(svg=plot.svg(), caption=f"Loss by step, smoothed: about {first} at first, {last} at last; {faint}.")


def _rate(points: list[Point]) -> Figure:
    stretches = thin_points(points)
    most = figure(max(value for _, value in points))
    summary = f"The learning rate is {most} at its highest and {figure(points[-1][1])} at the end."
    x = index_axis(points[0][0], points[-1][0], "step")
    plot = Plot(
        "rate", "Learning rate by step", summary, x, linear_axis((part.mean for part in stretches), "rate", zero=True)
    )
    plot.line([(part.step, part.mean) for part in stretches], "curve other")
    return Figure(svg=plot.svg(), caption=f"Learning rate by step: {most} at its highest.")


def _scores(epochs: Sequence[Epoch], metric: str | None) -> list[Figure]:
    points = [(float(epoch.number), epoch.score) for epoch in epochs if epoch.score is not None]
    if not points:
        return []
    name = "score" if metric is None else metric if metric.isupper() else metric.lower()  # BLEU, F1 stay as they are
    best = next((epoch for epoch in reversed(epochs) if epoch.best and epoch.score is not None), None)
    best_note = "" if best is None else f"; epoch {best.number} is the best, with {figure(best.score)}"
    summary = f"{name} on the dev rows after each epoch: {figure(points[-1][1])} after the last one{best_note}."
    curve = points if len(points) <= POINTS else [(part.step, part.mean) for part in thin_points(points)]
    plot = Plot(
        "score",
        "Dev score by epoch",
        summary,
        index_axis(points[0][0], points[-1][0], "epoch"),
        linear_axis((value for _, value in points), f"dev {name}"),
    )
    plot.line(curve, "curve")
    if len(points) <= MOST_DOTS:
        for number, value in points:
            plot.dot((number, value), 3.5, "curve dot", f"epoch {number:g}: {figure(value)}")
    if best is not None and best.score is not None:
        plot.dot((best.number, best.score), 7.0, "ring", f"the best epoch: {best.number}")
    chose = " The ring marks the epoch that was kept. These rows choose the epoch, so this is no test result."
    too_few = " These rows did not choose the epoch: the last one was kept."
    caption = f"{sentence(summary)}{too_few if best is None else chose}"
    return [Figure(svg=plot.svg(), caption=caption)]


def _epochs(lines: Sequence[Mapping[str, Any]]) -> list[Epoch]:
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for line in lines:
        number = _parse_count(line.get("epoch"))
        if number is not None:
            groups.setdefault(number, []).append(line)
    epochs = []
    for number, epoch_lines in sorted(groups.items()):
        losses = [value for _, value in _series(epoch_lines, "loss")]
        scored = [line for line in epoch_lines if known(line.get("score")) is not None]
        epochs.append(
            Epoch(
                number=number + 1,
                steps=len(epoch_lines),
                loss=sum(losses) / len(losses) if losses else None,
                score=known(scored[-1]["score"]) if scored else None,
                best=bool(scored and scored[-1].get("best")),
            )
        )
    last = max((index for index, epoch in enumerate(epochs) if epoch.best), default=None)  # each was the best so far
    return [replace(epoch, best=index == last) for index, epoch in enumerate(epochs)]
