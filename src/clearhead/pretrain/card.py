"""The model card of a pre-trained model: architecture, training text, scores on held-out text, intended use."""

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


def write_card(folder: Path, result: PretrainResult, plan: PretrainPlan, command: str) -> Path:
    """Write the model card into the model folder."""
    plan = plan.without_folders()
    files = ", ".join(f"`{to_printable(Path(name).name, 80)}`" for name in plan.files[:20])
    origin = f"continued from `{to_printable(plan.model, 80)}`" if plan.model else "trained from scratch"
    lines = [
        f"# {to_printable(folder.name, 80)}",
        "",
        f"A {result.family} model with {result.parameters:,} parameters, {origin}. Objective: "
        f"{OBJECTIVES[result.objective].title}; {result.tokens:,} tokens in {result.documents:,} documents ({files}).",
        f"Training took {result.steps:,} steps and processed {result.tokens_seen:,} tokens.",
        "",
        "## Evaluation",
        "",
        *(
            _describe_scores(result.held_out)
            if result.held_out is not None
            else ["No text was held out, so the model was not evaluated."]
        ),
        "",
        "## Intended use",
        "",
        "A starting point for `clearhead train --model` on similar texts, and an object of study. The model "
        "reflects its training text, including its biases and errors; its predictions are not a source of facts.",
        "",
        "## Training",
        "",
        "```",
        command or f"clearhead pretrain {' '.join(shlex.quote(name) for name in plan.files)}",
        "```",
        "",
        f"All settings, versions and the hash of the text are in `pretraining.json`. Seed {plan.settings.seed}.",
        *([] if result.machine is None else [to_printable(result.machine.sentence(), 400)]),
    ]
    path = folder / CARD_FILE
    with explain_write_errors(path):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _describe_scores(scores: HeldOutScores) -> list[str]:
    rows = [
        "| on held-out text | loss | perplexity | accuracy |",
        "| --- | ---: | ---: | ---: |",
        f"| the model | {scores.loss:.3f} ({scores.loss_low:.3f} to {scores.loss_high:.3f}) "
        f"| {scores.perplexity:.1f} | {scores.accuracy:.1%} ({scores.low:.1%} to {scores.high:.1%}) |",
    ]
    for name, baseline in (("previous token (bigram)", scores.bigram), ("token frequency (unigram)", scores.unigram)):
        rows.append(
            f"| {name} | {baseline.loss:.3f} | {math.exp(min(baseline.loss, 700)):.1f} | {baseline.accuracy:.1%} |"
        )
    notes = [f"Measured on {scores.questions:,} predicted tokens, with 95 % confidence intervals."]
    if scores.pair_accuracy is not None and scores.pair_majority is not None:
        pair = f"Text pairs: accuracy {scores.pair_accuracy:.1%}"
        notes.append(f"{pair} (majority class: {scores.pair_majority:.1%}).")
    if scores.replaced_accuracy is not None and scores.replaced_majority is not None:
        replaced = f"Replaced tokens: accuracy {scores.replaced_accuracy:.1%}"
        notes.append(f"{replaced} (majority class: {scores.replaced_majority:.1%}).")
    return [*rows, "", *notes]
