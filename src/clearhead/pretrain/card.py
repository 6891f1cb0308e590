"""The card of a model that was pre-trained: what it is, what it learned from, how well, and what it is not for."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.files import explain_write_errors, to_printable
from clearhead.pretrain.plan import PretrainPlan
from clearhead.pretraining.registry import OBJECTIVES

if TYPE_CHECKING:
    from clearhead.pretrain.held_out import HeldOutScores
    from clearhead.pretrain.result import PretrainResult

CARD_FILE = "README.md"


def write_card(folder: Path, run: PretrainResult, plan: PretrainPlan, command: str) -> Path:
    """Write the card beside the model."""
    plan = plan.without_folders()
    files = ", ".join(f"`{to_printable(Path(name).name, 80)}`" for name in plan.files[:20])
    origin = f"taught further from `{to_printable(plan.model, 80)}`" if plan.model else "made from nothing"
    lines = [
        f"# {to_printable(folder.name, 80)}",
        "",
        f"A {run.family} model of {run.parameters:,} parameters, {origin}, that learned "
        f"{OBJECTIVES[run.objective].title} from {run.tokens:,} tokens in {run.documents:,} documents ({files}).",
        f"It did {run.steps:,} steps, in which it read {run.tokens_seen:,} tokens.",
        "",
        "## How well it knows words",
        "",
        *(
            _describe_scores(run.held_out)
            if run.held_out is not None
            else ["Nothing was held out, and so nothing was measured."]
        ),
        "",
        "## What it is for",
        "",
        "A start for `clearhead train --model` on texts of the same kind, and for looking at what such a model learns. "
        "It knows nothing but its text: it repeats its prejudices and mistakes, and what it says is not knowledge.",
        "",
        "## How it was made",
        "",
        "```",
        command or f"clearhead pretrain {' '.join(shlex.quote(name) for name in plan.files)}",
        "```",
        "",
        f"All settings, versions and the hash of its text are in `pretraining.json`. Seed {plan.settings.seed}.",
        *([] if run.machine is None else [to_printable(run.machine.sentence(), 400)]),
    ]
    path = folder / CARD_FILE
    with explain_write_errors(path):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _describe_scores(judged: HeldOutScores) -> list[str]:
    rows = [
        "| on held-out text | loss | perplexity | words right |",
        "| --- | ---: | ---: | ---: |",
        f"| the model | {judged.loss:.3f} ({judged.loss_low:.3f} to {judged.loss_high:.3f}) "
        f"| {judged.perplexity:.1f} | {judged.accuracy:.1%} ({judged.low:.1%} to {judged.high:.1%}) |",
    ]
    for name, one in (("the word before (bigram)", judged.bigram), ("frequency (unigram)", judged.unigram)):
        rows.append(f"| {name} | {one.loss:.3f} | {math.exp(min(one.loss, 700)):.1f} | {one.accuracy:.1%} |")
    more = [f"{judged.questions:,} words were asked about; intervals are of 95 %."]
    if judged.pair_accuracy is not None and judged.pair_majority is not None:
        pair = f"Pairs of texts: {judged.pair_accuracy:.1%} right"
        more.append(f"{pair}, and the more frequent answer is right in {judged.pair_majority:.1%}.")
    if judged.replaced_accuracy is not None and judged.replaced_majority is not None:
        told = f"Replaced words: {judged.replaced_accuracy:.1%} told rightly"
        more.append(f"{told}, and saying that none is would be right in {judged.replaced_majority:.1%}.")
    return [*rows, "", *more]
