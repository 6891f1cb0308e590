"""What a report tells of pre-training: the text, what was measured beside the baselines, and what the model says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from clearhead.explain.svg import Plot, index_axis, linear_axis
from clearhead.report.formatting import figure, known
from clearhead.report.sections import Section, captioned, paragraph, table

BASELINES = (("model", "the model"), ("bigram", "the word before (bigram)"), ("unigram", "frequency (unigram)"))


@dataclass(frozen=True, kw_only=True)
class PretrainingFacts:
    """What there is to tell, as plain values."""

    text: Sequence[str] = ()  # sentences about the text
    held_out: Mapping[str, Any] | None = None  # the last measurement, as in pretraining.json
    history: Sequence[Mapping[str, Any]] = ()
    blank: str = ""  # the sentence whose blanks the samples fill
    counted: Mapping[str, Any] = field(default_factory=dict)  # documents, tokens, steps, ...


def pretraining_lead(facts: PretrainingFacts) -> str:
    """The result in two sentences."""
    scores = facts.held_out
    if scores is None:
        return "Nothing was held out, and so nothing was measured."
    pair, alone = (scores[name]["accuracy"] for name in ("bigram", "unigram"))
    beside = f"the word before it alone tells {pair:.1%}, its frequency {alone:.1%}"
    sentence = f"Of {scores['questions']:,} words of held-out text {scores['accuracy']:.1%} are guessed; {beside}."
    loss = f"The loss is {figure(scores['loss'])} (bigram {figure(scores['bigram']['loss'])}"
    return f"{sentence} {loss}, unigram {figure(scores['unigram']['loss'])})."


def pretraining_sections(facts: PretrainingFacts) -> list[Section]:
    """Sections for a report, in their places."""
    rows = [(name, f"{value:,}" if isinstance(value, int) else value) for name, value in facts.counted.items()]
    about = table(("What", "How much"), rows, label="The text", numbers=(1,))
    about += Markup("").join(paragraph(f"{line[:1].upper()}{line[1:].rstrip('.')}.") for line in facts.text)
    sections = [Section(id="texts", title="The text", html=about, before="curves")]
    if facts.held_out is not None:
        sections.append(Section(id="held-out", title="On held-out text", html=_measured(facts), before="labels"))
    if facts.history:
        sections.append(Section(id="samples", title="What it says", html=_samples(facts), before="labels"))
    return sections


def _measured(facts: PretrainingFacts) -> Markup:
    scores = facts.held_out or {}
    values = {
        "model": (scores["loss"], scores["accuracy"]),
        "bigram": (scores["bigram"]["loss"], scores["bigram"]["accuracy"]),
        "unigram": (scores["unigram"]["loss"], scores["unigram"]["accuracy"]),
    }
    between = f"{figure(scores['loss_low'])} to {figure(scores['loss_high'])}"
    rows = [
        (title, figure(loss), between if name == "model" else "–", figure(math.exp(min(loss, 700))), f"{accuracy:.1%}")
        for name, title in BASELINES
        for loss, accuracy in [values[name]]
    ]
    head = ("Who guesses", "Loss", "95 % interval", "Perplexity", "Words right")
    page = table(head, rows, label="Held-out text", numbers=range(1, 5), main=(0,))
    page += paragraph(
        f"{scores['questions']:,} words of text that was held out were asked about. The loss is -log p of the right "
        "word; the perplexity is how many words it was between, as if they were equally likely.",
        note=True,
    )
    for name, subject in (("pair", "Pairs of texts"), ("replaced", "Replaced words")):
        if scores.get(f"{name}_accuracy") is not None:
            accuracy, usual = scores[f"{name}_accuracy"], scores[f"{name}_majority"]
            page += paragraph(f"{subject}: {accuracy:.1%} right; always the more frequent answer would be {usual:.1%}.")
    return page + (_picture(facts) if len(facts.history) > 1 else Markup(""))


def _picture(facts: PretrainingFacts) -> Markup:
    points = [
        (float(point["step"]), float(point["loss"])) for point in facts.history if known(point["loss"]) is not None
    ]
    if len(points) < 2:
        return Markup("")
    point = facts.history[-1]
    flat = {name: float(point[name]["loss"]) for name in ("unigram", "bigram")}
    steps = [step for step, _ in points]
    x = index_axis(min(steps), max(steps), "step")
    y = linear_axis([*(loss for _, loss in points), *flat.values()], "held-out loss")
    description = "; ".join(f"step {step:g}: {figure(loss)}" for step, loss in points)
    plot = Plot("held-out-curve", "Loss on held-out text", description, x, y)
    for value in flat.values():
        plot.line([(steps[0], value), (steps[-1], value)], "ideal")
    plot.line(points, "curve")
    for step, loss in points[:60]:
        plot.dot((step, loss), 3.5, "curve dot", f"step {step:g}: {figure(loss)}")
    lines = ", ".join(f"{name} {figure(value)}" for name, value in flat.items())
    return captioned(
        plot.svg(), f"The loss on held-out text as it learned; the dashed lines are the baselines ({lines})."
    )


def _samples(facts: PretrainingFacts) -> Markup:
    page = paragraph(facts.blank) if facts.blank else Markup("")
    rows = [(f"{scores['step']:,}", *scores["samples"][:4]) for scores in facts.history if scores.get("samples")]
    if not rows:
        return page
    most = max(len(row) for row in rows) - 1
    head = ("Step", *(("What it says",) if most == 1 else (f"Blank {number + 1}" for number in range(most))))
    return page + table(head, [(*row, *[""] * (most + 1 - len(row))) for row in rows], label="What it says")
