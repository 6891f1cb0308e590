"""Report sections of pre-training: corpus, held-out scores beside baselines, and samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from clearhead.explain.svg import Plot, index_axis, linear_axis
from clearhead.report.formatting import finite_number, format_figure
from clearhead.report.sections import Section, figure_with_caption, paragraph, table

BASELINES = (("model", "the model"), ("bigram", "bigram (previous token)"), ("unigram", "unigram (token frequency)"))


@dataclass(frozen=True, kw_only=True)
class PretrainingFacts:
    """The facts of a pre-training run, as plain values."""

    text: Sequence[str] = ()  # sentences about the corpus
    held_out: Mapping[str, Any] | None = None  # last held-out scores, as in pretraining.json
    history: Sequence[Mapping[str, Any]] = ()
    blank: str = ""  # prompt whose blanks the samples fill
    counted: Mapping[str, Any] = field(default_factory=dict)  # documents, tokens, steps, ...


def pretraining_lead(facts: PretrainingFacts) -> str:
    """Summarize the result in two sentences."""
    scores = facts.held_out
    if scores is None:
        return "There is no held-out text, so the model was not evaluated."
    bigram, unigram = (scores[name]["accuracy"] for name in ("bigram", "unigram"))
    comparison = f"the bigram baseline reaches {bigram:.1%}, the unigram baseline {unigram:.1%}"
    sentence = f"The model predicts {scores['accuracy']:.1%} of {scores['questions']:,} held-out tokens; {comparison}."
    loss = f"The loss is {format_figure(scores['loss'])} (bigram {format_figure(scores['bigram']['loss'])}"
    return f"{sentence} {loss}, unigram {format_figure(scores['unigram']['loss'])})."


def pretraining_sections(facts: PretrainingFacts) -> list[Section]:
    """Return the report sections of a pre-training run."""
    rows = [(name, f"{value:,}" if isinstance(value, int) else value) for name, value in facts.counted.items()]
    corpus = table(("Quantity", "Value"), rows, label="Corpus", numbers=(1,))
    corpus += Markup("").join(paragraph(f"{line[:1].upper()}{line[1:].rstrip('.')}.") for line in facts.text)
    sections = [Section(id="texts", title="Corpus", html=corpus, before="curves")]
    if facts.held_out is not None:
        sections.append(Section(id="held-out", title="Held-out text", html=_measurements(facts), before="labels"))
    if facts.history:
        sections.append(Section(id="samples", title="Samples", html=_samples(facts), before="labels"))
    return sections


def _measurements(facts: PretrainingFacts) -> Markup:
    scores = facts.held_out or {}
    values = {
        "model": (scores["loss"], scores["accuracy"]),
        "bigram": (scores["bigram"]["loss"], scores["bigram"]["accuracy"]),
        "unigram": (scores["unigram"]["loss"], scores["unigram"]["accuracy"]),
    }
    between = f"{format_figure(scores['loss_low'])} to {format_figure(scores['loss_high'])}"
    rows = [
        (
            title,
            format_figure(loss),
            between if name == "model" else "–",
            format_figure(math.exp(min(loss, 700))),
            f"{accuracy:.1%}",
        )
        for name, title in BASELINES
        for loss, accuracy in [values[name]]
    ]
    head = ("Predictor", "Loss", "95% interval", "Perplexity", "Accuracy")
    page = table(head, rows, label="Held-out text", numbers=range(1, 5), main=(0,))
    page += paragraph(
        f"{scores['questions']:,} held-out tokens. The loss is the mean negative log probability of the correct "
        "token; the perplexity is its exponential.",
        note=True,
    )
    for name, subject in (("pair", "Text pairs"), ("replaced", "Replaced tokens")):
        if scores.get(f"{name}_accuracy") is not None:
            accuracy, usual = scores[f"{name}_accuracy"], scores[f"{name}_majority"]
            page += paragraph(f"{subject}: {accuracy:.1%} accuracy (majority class: {usual:.1%}).")
    return page + (_loss_picture(facts) if len(facts.history) > 1 else Markup(""))


def _loss_picture(facts: PretrainingFacts) -> Markup:
    points = [
        (float(point["step"]), float(point["loss"]))
        for point in facts.history
        if finite_number(point["loss"]) is not None
    ]
    if len(points) < 2:
        return Markup("")
    point = facts.history[-1]
    flat = {name: float(point[name]["loss"]) for name in ("unigram", "bigram")}
    steps = [step for step, _ in points]
    x = index_axis(min(steps), max(steps), "step")
    y = linear_axis([*(loss for _, loss in points), *flat.values()], "held-out loss")
    description = "; ".join(f"step {step:g}: {format_figure(loss)}" for step, loss in points)
    plot = Plot("held-out-curve", "Loss on held-out text", description, x, y)
    for value in flat.values():
        plot.line([(steps[0], value), (steps[-1], value)], "ideal")
    plot.line(points, "curve")
    for step, loss in points[:60]:
        plot.dot((step, loss), 3.5, "curve dot", f"step {step:g}: {format_figure(loss)}")
    lines = ", ".join(f"{name} {format_figure(value)}" for name, value in flat.items())
    return figure_with_caption(plot.svg(), f"Loss on held-out text during training; dashed lines: baselines ({lines}).")


def _samples(facts: PretrainingFacts) -> Markup:
    page = paragraph(facts.blank) if facts.blank else Markup("")
    rows = [(f"{scores['step']:,}", *scores["samples"][:4]) for scores in facts.history if scores.get("samples")]
    if not rows:
        return page
    column_count = max(len(row) for row in rows) - 1
    head = ("Step", *(("Sample",) if column_count == 1 else (f"Blank {number + 1}" for number in range(column_count))))
    return page + table(head, [(*row, *[""] * (column_count + 1 - len(row))) for row in rows], label="Samples")
