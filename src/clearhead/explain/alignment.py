"""Alignment of generated tokens with source tokens, from cross-attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.deprecation import renamed_fields, renamed_parameters
from clearhead.errors import InputError
from clearhead.explain.focus import describe_hidden_share, select_tokens, sum_hidden_probs
from clearhead.explain.headings import wrap_heading
from clearhead.explain.heatmap import MAX_HEADING_EM, matrix_svg
from clearhead.explain.svg import escape_invisible, head_color, shorten
from clearhead.explain.svg.colors import BLUE
from clearhead.explain.tokens import Token, group_by_word, require_text
from clearhead.explain.trace_page import attention_page
from clearhead.explain.trace_view import (
    AttentionView,
    check_any_head,
    check_head,
    check_layer,
    mask_informative_links,
    view_part,
)
from clearhead.html import short_repr
from clearhead.model.alignment import average_rows, sum_columns
from clearhead.model.generation import TextGenerator

if TYPE_CHECKING:
    from clearhead.core.trace import Trace
    from clearhead.model import Model

    Array = np.ndarray[Any, Any]


@renamed_fields(chosen="layer_selected")
@dataclass(frozen=True, kw_only=True)
class AlignmentMatrix:
    """Attention from generated tokens (rows) to source tokens (columns)."""

    target: list[Token]
    source: list[Token]
    probs: Array  # (target, source), not renormalized; with `special`, rows sum to 1
    layer: int
    head: int | None  # None: the mean of all heads
    layers: int  # of the model
    heads: int  # of this layer
    layer_selected: bool  # whether the layer was selected automatically
    words: bool  # whether the tokens of a word are merged
    special_share: Array  # (target,): probability on hidden source tokens

    def __repr__(self) -> str:
        head = "mean of all heads" if self.head is None else f"head {self.head}"
        size = f"{len(self.target)} target and {len(self.source)} source tokens"
        return short_repr("AlignmentMatrix", size, f"layer {self.layer} of {self.layers}", head)

    def rows(self, top: int = 3) -> list[tuple[str, list[tuple[str, float]]]]:
        """List each target token with the `top` source tokens that get most attention."""
        words = []
        for token, probs in zip(self.target, self.probs, strict=True):
            best = np.argsort(-probs, kind="stable")[:top].tolist()
            words.append((token.label, [(self.source[index].label, float(probs[index])) for index in best]))
        return words

    def to_json(self) -> dict[str, Any]:
        """Return plain values: raw tokens, and probabilities rounded to four digits."""
        return {
            "source": [token.raw for token in self.source],
            "target": [token.raw for token in self.target],
            "layer": self.layer,
            "head": self.head,
            "probs": np.round(self.probs.astype(np.float64), 4).tolist(),
            "special_share": np.round(self.special_share.astype(np.float64), 4).tolist(),
        }


@renamed_parameters(beam="num_beams")
def trace_generated(model: Model, text: str, *, num_beams: int = 4, **choices: Any) -> Trace:
    """Trace a text with the target that the model generates; `choices` are fields of `Decoding`."""
    require_text(text)
    writer = TextGenerator(model, num_beams=num_beams, **choices)
    if model.shape.decoder is None:
        raise InputError("This model has no decoder, so there is no target to generate; use model.trace(text).")
    answers = writer.generate_hypotheses(text, None)
    if not answers or not writer.new_ids(answers[0]):
        raise InputError("The model generated no tokens for this text, so there is no alignment.")
    return model.trace(text, target=answers[0].ids)


def alignment(
    trace: Trace, *, layer: int | None = None, head: int | None = None, words: bool = False, special: bool = False
) -> AlignmentMatrix:
    """Return the cross-attention of a trace with a target as an alignment.

    Without `layer`, the layer with the most focused attention is selected; without `head`, heads are averaged. `words`
    merges the tokens of a word: columns are summed, rows are averaged. Special tokens are hidden unless `special`;
    `special_share` contains their attention.
    """
    if not trace.cross:
        if trace.target_tokens is None:
            raise InputError("An alignment needs a target: pass target= to trace() of a model with a decoder.")
        raise InputError("This model has no cross-attention, so there is no alignment.")
    attention = view_part(trace, "cross", as_alignment=True)
    if layer is None and head is not None:
        check_any_head(attention, head)
    layer_index = _find_most_focused_layer(attention, head) if layer is None else check_layer(attention, layer)
    probs = (
        attention.probs(layer_index).mean(0)
        if head is None
        else attention.probs(layer_index)[check_head(attention, layer_index, head)]
    )
    target, source = attention.queries, attention.keys
    if words:
        rows, columns = group_by_word(target), group_by_word(source)
        probs = average_rows(sum_columns(probs, columns), rows)
        target, source = _merge_word_tokens(target, rows), _merge_word_tokens(source, columns)
    target_shown, source_shown = select_tokens(target, special), select_tokens(source, special)
    return AlignmentMatrix(
        target=[target[index] for index in target_shown],
        source=[source[index] for index in source_shown],
        probs=probs[target_shown][:, source_shown],
        layer=layer_index,
        head=head,
        layers=len(attention.layers),
        heads=len(attention.probs(layer_index)),
        layer_selected=layer is None,
        words=words,
        special_share=sum_hidden_probs(probs[target_shown], source_shown),
    )


def alignment_svg(
    trace: Trace, *, layer: int | None = None, head: int | None = None, words: bool = False, special: bool = False
) -> str:
    """Draw the alignment of a trace as an SVG heat map: target tokens as rows, source tokens as columns."""
    matrix = alignment(trace, layer=layer, head=head, words=words, special=special)
    layer_name = f", layer {matrix.layer}" if matrix.layers > 1 else ""
    head_name = "" if matrix.heads == 1 else ", mean of all heads" if head is None else f", head {head}"
    reason = " This layer has the most focused attention." if matrix.layer_selected and matrix.layers > 1 else ""
    note = "Each row sums to 1."
    if matrix.special_share.any():
        note = describe_hidden_share(float(matrix.special_share.mean()))
    caption = (
        "Rows: generated tokens; columns: source tokens. The darker the cell, the more attention the decoder paid "
        f"to the source token. {note} A frame marks the maximum of a row.{reason}"
    )
    fill = BLUE if head is None else head_color(head)
    return matrix_svg(
        matrix.probs,
        matrix.target,
        matrix.source,
        title=f"Alignment{layer_name}{head_name}",
        caption=caption,
        fill=fill,
        names=("target words", "source words"),
        marked=True,
        heading=wrap_heading(trace, MAX_HEADING_EM),
    )


def alignment_page(
    trace: Trace, *, layer: int | None = None, head: int | None = None, source_note: str = "", special: bool = False
) -> str:
    """Render the standalone attention page, opened at the alignment."""
    matrix = alignment(trace, layer=layer, head=head)
    return attention_page(
        trace, source_note=source_note, layer=matrix.layer, head=head, part="cross", as_alignment=True, special=special
    )


def _find_most_focused_layer(attention: AttentionView, head: int | None) -> int:
    """Return the layer with the largest sum of squared probabilities, excluding special tokens."""
    mask = mask_informative_links(attention)
    focus = []
    for layer in attention.layers:
        if head is None or head < len(layer.probs):
            probs = layer.probs.mean(0) if head is None else layer.probs[head]
            focus.append(float((np.where(mask, probs, 0.0) ** 2).sum()))
        else:
            focus.append(-1.0)
    return int(np.argmax(focus))


def _merge_word_tokens(tokens: Sequence[Token], groups: Sequence[Sequence[int]]) -> list[Token]:
    """Merge the tokens of each word into one token."""
    merged = []
    for group in groups:
        first = tokens[group[0]]
        if len(group) == 1:
            merged.append(first)
            continue
        text = "".join(tokens[token_index].text for token_index in group)
        visible_text = escape_invisible(text)
        merged.append(Token(text, text, shorten(visible_text), visible_text, True, first.special))
    return merged
