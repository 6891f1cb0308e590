"""Alignment: which source words the decoder looked at while it wrote each word, as a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.deprecation import renamed_parameters
from clearhead.errors import InputError
from clearhead.explain.decoder_tokens import need_text
from clearhead.explain.focus import hidden_note, hidden_share, shown_tokens
from clearhead.explain.headings import heading_lines
from clearhead.explain.heatmap import HEADING, matrix_svg
from clearhead.explain.svg import head_color, shorten, visible
from clearhead.explain.svg.colors import BLUE
from clearhead.explain.tokens import Token, word_groups
from clearhead.explain.trace_page import attention_page
from clearhead.explain.trace_view import View, check_any_head, check_head, check_layer, telling, view
from clearhead.html import short_repr
from clearhead.model.alignment import average_rows, sum_columns
from clearhead.model.generation import TextGenerator

if TYPE_CHECKING:
    from clearhead.core.trace import Trace
    from clearhead.model import Model

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Where the decoder looked: a row for each word that it wrote, a column for each word that it read."""

    target: list[Token]
    source: list[Token]
    probs: Array  # (target, source), as the model has them; with `special`, each row sums to one
    layer: int
    head: int | None  # None: the mean of all heads
    layers: int  # that the model has
    heads: int  # of this layer
    chosen: bool  # nobody asked for this layer
    words: bool  # the tokens of a word are taken together
    special_share: Array  # (target,): what each row gives to source tokens that are hidden

    def __repr__(self) -> str:
        head = "mean of the heads" if self.head is None else f"head {self.head}"
        size = f"{len(self.target)} written and {len(self.source)} read tokens"
        return short_repr("Alignment", size, f"layer {self.layer} of {self.layers}", head)

    def rows(self, top: int = 3) -> list[tuple[str, list[tuple[str, float]]]]:
        """Each written word with the source words that it looked at most."""
        words = []
        for token, probs in zip(self.target, self.probs, strict=True):
            best = np.argsort(-probs, kind="stable")[:top].tolist()
            words.append((token.label, [(self.source[index].label, float(probs[index])) for index in best]))
        return words

    def to_json(self) -> dict[str, Any]:
        """Plain values: tokens as the tokenizer writes them, probabilities to four digits."""
        return {
            "source": [token.raw for token in self.source],
            "target": [token.raw for token in self.target],
            "layer": self.layer,
            "head": self.head,
            "probs": np.round(self.probs.astype(np.float64), 4).tolist(),
            "special_share": np.round(self.special_share.astype(np.float64), 4).tolist(),
        }


@renamed_parameters(beam="num_beams")
def trace_written(model: Model, text: str, *, num_beams: int = 4, **choices: Any) -> Trace:
    """The trace of a text with the target that the model itself writes; `choices` are fields of `Decoding`."""
    need_text(text)
    writer = TextGenerator(model, num_beams=num_beams, **choices)
    if model.shape.decoder is None:
        raise InputError("This model has no decoder beside its encoder; its trace needs no target.")
    answers = writer.generate_hypotheses(text, None)
    if not answers or not writer.new_ids(answers[0]):
        raise InputError("The model wrote nothing for this text, so there is no alignment to see.")
    return model.trace(text, target=answers[0].ids)


def alignment(
    trace: Trace, *, layer: int | None = None, head: int | None = None, words: bool = False, special: bool = False
) -> Alignment:
    """The cross-attention of a trace with a target, or what a recurrent decoder looked at.

    Without `layer`, the one that looks most firmly at words; without `head`, the mean of all; with `words`, the tokens
    of a word are taken together: its columns are added, its rows averaged. Special tokens are hidden without
    `special`; `special_share` tells what they get.
    """
    if not trace.cross:
        if trace.target_tokens is None:
            raise InputError("An alignment needs what was written: give trace() a target, of a model with a decoder.")
        raise InputError("This model has no attention from its target to its source, so there is no alignment to see.")
    attention = view(trace, "cross", written=True)
    if layer is None and head is not None:
        check_any_head(attention, head)
    at = _firmest(attention, head) if layer is None else check_layer(attention, layer)
    probs = attention.probs(at).mean(0) if head is None else attention.probs(at)[check_head(attention, at, head)]
    target, source = attention.queries, attention.keys
    if words:
        rows, columns = word_groups(target), word_groups(source)
        probs = average_rows(sum_columns(probs, columns), rows)
        target, source = _join_tokens(target, rows), _join_tokens(source, columns)
    target_shown, source_shown = shown_tokens(target, special), shown_tokens(source, special)
    return Alignment(
        target=[target[index] for index in target_shown],
        source=[source[index] for index in source_shown],
        probs=probs[target_shown][:, source_shown],
        layer=at,
        head=head,
        layers=len(attention.layers),
        heads=len(attention.probs(at)),
        chosen=layer is None,
        words=words,
        special_share=hidden_share(probs[target_shown], source_shown),
    )


def alignment_svg(
    trace: Trace, *, layer: int | None = None, head: int | None = None, words: bool = False, special: bool = False
) -> str:
    """The alignment of a trace as an SVG heat map: target words as rows, source words as columns."""
    matrix = alignment(trace, layer=layer, head=head, words=words, special=special)
    which = f", layer {matrix.layer}" if matrix.layers > 1 else ""
    who = "" if matrix.heads == 1 else ", mean of all heads" if head is None else f", head {head}"
    why = " The layer is the one that looks most firmly at words." if matrix.chosen and matrix.layers > 1 else ""
    note = "Each row sums to 1."
    if matrix.special_share.any():
        note = hidden_note(float(matrix.special_share.mean()))
    caption = (
        "A row is a word that was written, a column a word that was read; the darker, the more the decoder looked "
        f"there while it wrote the word. {note} A frame marks the largest of a row.{why}"
    )
    fill = BLUE if head is None else head_color(head)
    return matrix_svg(
        matrix.probs,
        matrix.target,
        matrix.source,
        title=f"Alignment{which}{who}",
        caption=caption,
        fill=fill,
        names=("target words", "source words"),
        marked=True,
        heading=heading_lines(trace, HEADING),
    )


def alignment_page(
    trace: Trace, *, layer: int | None = None, head: int | None = None, source_note: str = "", special: bool = False
) -> str:
    """The standalone page of all attention, opened at the alignment as a heat map."""
    matrix = alignment(trace, layer=layer, head=head)
    return attention_page(
        trace, source_note=source_note, layer=matrix.layer, head=head, part="cross", written=True, special=special
    )


def _firmest(attention: View, head: int | None) -> int:
    """The layer that looks most firmly at words: the largest sum of squares, special tokens left out."""
    counts = telling(attention)
    firm = []
    for layer in attention.layers:
        if head is None or head < len(layer.probs):
            probs = layer.probs.mean(0) if head is None else layer.probs[head]
            firm.append(float((np.where(counts, probs, 0.0) ** 2).sum()))
        else:
            firm.append(-1.0)
    return int(np.argmax(firm))


def _join_tokens(tokens: Sequence[Token], groups: Sequence[Sequence[int]]) -> list[Token]:
    """One token for each word."""
    made = []
    for group in groups:
        first = tokens[group[0]]
        if len(group) == 1:
            made.append(first)
            continue
        text = "".join(tokens[place].text for place in group)
        shown = visible(text)
        made.append(Token(text, text, shorten(shown), shown, True, first.special))
    return made
