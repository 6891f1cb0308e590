"""Show decoding step by step: the candidates at each step, their probabilities, and the chosen token."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.deprecation import renamed_fields, renamed_parameters
from clearhead.errors import InputError
from clearhead.explain.figure import Table, figure_page, write_figure
from clearhead.explain.svg import (
    Element,
    add_group,
    add_label,
    add_rect,
    add_text,
    escape_invisible,
    finish_picture,
    shorten,
    start_picture,
    text_width,
)
from clearhead.explain.svg.colors import BLUE, DULL_BLUE, INK, PINK, SOFT
from clearhead.explain.tokens import Token, describe_opening, label_token_ids, require_text
from clearhead.html import short_repr
from clearhead.model.generation import TextGenerator

if TYPE_CHECKING:
    from clearhead.model import Model

MAX_TOP = 50
MAX_STEPS = 256  # panels; a larger picture is not readable
PANELS_PER_ROW, PANEL_WIDTH, BAR_HEIGHT, LABEL_WIDTH = (
    4,
    226.0,
    17.0,
    92.0,
)  # side by side; width of one; height of a bar; room for its word
CHOSEN_COLOR, CANDIDATE_COLOR, FORBIDDEN_COLOR = BLUE, DULL_BLUE, PINK
GREEDY = "the decoder picks the word with the highest probability"


@renamed_fields(said="is_chosen")
@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A candidate for the next token."""

    id: int
    token: Token
    probability: float  # softmax over the whole vocabulary
    allowed: bool  # not forbidden by a decoding rule
    is_chosen: bool


@renamed_fields(said="chosen")
@dataclass(frozen=True, kw_only=True)
class DecodingStep:
    """One decoding step: the chosen token and the most likely candidates."""

    chosen: Candidate
    rank: int  # of the chosen token, from 1
    candidates: tuple[Candidate, ...]  # most likely first


@renamed_fields(how="strategy")
@dataclass(frozen=True, kw_only=True)
class DecodedText:
    """A decoded text with the candidates of each step."""

    source: str
    text: str
    strategy: str  # how tokens were chosen
    opening: str  # text before the first token
    steps: tuple[DecodingStep, ...]

    def __repr__(self) -> str:
        return short_repr("DecodedText", repr(self.text), f"{len(self.steps)} steps", self.strategy)

    def table(self) -> Table:
        """Return columns and rows: each token with its probability and the other candidates."""
        rows = []
        for number, step in enumerate(self.steps, 1):
            others = [
                f"{candidate.token.label} {candidate.probability:.3f}" + ("" if candidate.allowed else " (forbidden)")
                for candidate in step.candidates
                if not candidate.is_chosen
            ]
            rows.append((str(number), step.chosen.token.label, f"{step.chosen.probability:.3f}", "  ".join(others)))
        return ("step", "token", "p", "other candidates"), rows

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""

        def candidate_data(candidate: Candidate) -> dict[str, Any]:
            probability = round(candidate.probability, 6)
            return {
                "token": candidate.token.raw,
                "id": candidate.id,
                "probability": probability,
                "allowed": candidate.allowed,
            }

        steps = [
            {
                "step": number,
                **candidate_data(step.chosen),
                "rank": step.rank,
                "candidates": [*map(candidate_data, step.candidates)],
            }
            for number, step in enumerate(self.steps, 1)
        ]
        return {"source": self.source, "text": self.text, "chosen": self.strategy, "steps": steps}


@renamed_parameters(beam="num_beams")
def decoding_steps(
    model: Model, text: str, *, target: str | None = None, top: int = 5, num_beams: int = 1, **choices: Any
) -> DecodedText:
    """Decode one text step by step, with the `top` most likely candidates of each step.

    With `target`, its tokens are forced (teacher forcing); `choices` are fields of `Decoding`.
    """
    require_text(text)
    if isinstance(top, bool) or not isinstance(top, int) or not 1 <= top <= MAX_TOP:
        raise InputError(f"top must be an integer from 1 to {MAX_TOP}, got {top!r:.40}.")
    if target is None:
        generator = TextGenerator(model, num_beams=num_beams, **choices)
        hypotheses = generator.generate_hypotheses(text, None)
        ids = generator.new_ids(hypotheses[0]) if hypotheses else []
        strategy = (
            f"the best of a beam of {num_beams}"
            if num_beams > 1
            else "drawn by chance"
            if generator.settings.sample
            else GREEDY
        )
    else:
        ids = _encode_target(model, target)
        generator = TextGenerator(model, **(choices | {"max_length": len(ids) + 1}))
        strategy = "the target that was given"
    if not ids:
        raise InputError("The model generated no tokens, so there are no steps to show.")
    step_facts = []
    for chosen_id, (logits, allowed) in zip(ids, generator.teacher_force(text, ids), strict=True):
        probs = np.exp(logits.astype(np.float64) - float(logits.max()))
        probs /= probs.sum()
        top_ids = np.argsort(-probs, kind="stable")[:top].tolist()
        rank = int((probs > probs[chosen_id]).sum()) + 1
        step_facts.append(
            (
                chosen_id,
                rank,
                [(token_id, float(probs[token_id]), bool(allowed[token_id])) for token_id in top_ids],
                float(probs[chosen_id]),
            )
        )
    tokens = label_token_ids(
        model,
        [
            token_id
            for chosen_id, _, top_ids, _ in step_facts
            for token_id in (chosen_id, *(pair[0] for pair in top_ids))
        ],
    )
    steps = []
    for chosen_id, rank, top_ids, chosen_prob in step_facts:
        candidates = tuple(
            Candidate(
                id=token_id,
                token=tokens[token_id],
                probability=prob,
                allowed=is_allowed,
                is_chosen=token_id == chosen_id,
            )
            for token_id, prob, is_allowed in top_ids
        )
        chosen_candidate = next((candidate for candidate in candidates if candidate.is_chosen), None)
        chosen_candidate = chosen_candidate or Candidate(
            id=chosen_id, token=tokens[chosen_id], probability=chosen_prob, allowed=True, is_chosen=True
        )
        steps.append(DecodingStep(chosen=chosen_candidate, rank=rank, candidates=candidates))
    tokenizer = model.target_tokenizer or model.tokenizer
    return DecodedText(
        source=text,
        text=tokenizer.decode(ids),
        strategy=strategy,
        opening=describe_opening(model, text),
        steps=tuple(steps),
    )


def _encode_target(model: Model, target: str) -> list[int]:
    """Encode a target; a continuation of a prompt has no special tokens."""
    encoding = (model.target_tokenizer or model.tokenizer).encode(target)
    if model.shape.decoder is not None:
        return list(encoding.ids)
    return [token_id for token_id, special in zip(encoding.ids, encoding.special, strict=True) if not special]


def steps_svg(decoded: DecodedText) -> str:
    """Draw a panel per step with bars of the candidates; the chosen token is blue."""
    count = len(decoded.steps)
    if count > MAX_STEPS:
        raise InputError(
            f"The answer has {count} tokens, but at most {MAX_STEPS} are drawn. "
            "Use a smaller max_length, or save it as .json."
        )
    columns = min(PANELS_PER_ROW, count)
    width = max(480.0, columns * PANEL_WIDTH + 32)
    panel_height = BAR_HEIGHT * max(len(_list_bars(step)) for step in decoded.steps) + 44
    summary = "; ".join(f"{step.chosen.token.label} {step.chosen.probability:.2f}" for step in decoded.steps[:12])
    title = "Decoding steps: " + shorten(escape_invisible(decoded.text), 0.058 * width)
    root = start_picture(width, title, f"Tokens with their probabilities: {summary}.")
    left = (width - columns * PANEL_WIDTH) / 2
    for number in range(count):
        _draw_panel(
            root, decoded, number, left + PANEL_WIDTH * (number % columns), 50 + panel_height * (number // columns)
        )
    has_forbidden = any(not candidate.allowed for step in decoded.steps for candidate in step.candidates)
    caption = (
        "Each panel is a step with the most likely next tokens and their probabilities. Blue: the chosen token "
        f"({decoded.strategy}). It becomes input of the next step."
    ) + (" Pink tokens are forbidden at this step." if has_forbidden else "")
    return finish_picture(root, width, 50 + panel_height * -(-count // columns) + 12, caption)


def _list_bars(step: DecodingStep) -> list[Candidate]:
    """Return the candidates, and the chosen token if it is not among them."""
    return [*step.candidates, *([] if any(candidate.is_chosen for candidate in step.candidates) else [step.chosen])]


def _draw_panel(root: Element, decoded: DecodedText, number: int, x: float, y: float) -> None:
    steps, opening = decoded.steps, decoded.opening
    step = steps[number]
    group = add_group(root, class_="step")
    previous = steps[number - 1].chosen.token.label if number else opening
    add_text(group, f"{number + 1}", x=x + 8, y=y + 14, font_size=12, font_weight="700", fill=INK)
    heading = f"after “{previous}”"
    add_text(group, heading, x=x + 14 + 9 * len(str(number + 1)), y=y + 14, font_size=11, fill=SOFT)
    max_bar_width = PANEL_WIDTH - LABEL_WIDTH - 50
    for bar, candidate in enumerate(_list_bars(step)):
        top = y + 22 + BAR_HEIGHT * bar
        fill = CHOSEN_COLOR if candidate.is_chosen else CANDIDATE_COLOR if candidate.allowed else FORBIDDEN_COLOR
        size = min(12.0, (LABEL_WIDTH - 12) / max(text_width(candidate.token.label), 0.1))
        style = {"font_weight": "700"} if candidate.is_chosen else {}
        add_label(
            group,
            candidate.token.label,
            candidate.token.tooltip,
            class_="token",
            x=x + LABEL_WIDTH - 4,
            y=top + 12,
            font_size=size,
            text_anchor="end",
            fill=CHOSEN_COLOR if candidate.is_chosen else INK,
            **style,
        )
        add_rect(
            group,
            class_="candidate",
            data_prob=candidate.probability,
            x=x + LABEL_WIDTH,
            y=top + 2,
            width=max(1.0, max_bar_width * candidate.probability),
            height=BAR_HEIGHT - 4,
            rx=2,
            fill=fill,
        )
        end = x + LABEL_WIDTH + max(1.0, max_bar_width * candidate.probability) + 4
        probability = (
            f"{candidate.probability:.2f}" if candidate.probability >= 0.095 else f"{candidate.probability:.3f}"
        )
        add_text(
            group, probability, x=end, y=top + 12, font_size=11, fill=CHOSEN_COLOR if candidate.is_chosen else SOFT
        )


def save_steps(decoded: DecodedText, path: str | os.PathLike[str], *, source_note: str = "") -> Path:
    """Write the steps to .svg, .png, .html (with a table) or .json."""
    return write_figure(
        path,
        svg=lambda: steps_svg(decoded),
        page=lambda: figure_page(
            f"Decoding steps for “{shorten(decoded.source, 60)}”",
            steps_svg(decoded),
            tables={"Steps": decoded.table()},
            source_note=source_note,
        ),
        data=decoded.to_json,
    )
