"""A trace's attention as a file: a picture, a page, or numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.explain.alignment import alignment, alignment_page, alignment_svg
from clearhead.explain.attention import attention_svg
from clearhead.explain.figure import figure_page, write_figure
from clearhead.explain.page import attention_page
from clearhead.explain.tokens import find_word
from clearhead.explain.view import View, check_head, check_layer, parts, view

if TYPE_CHECKING:
    from clearhead.core.trace import Trace

FIELDS = {"encoder": "layers", "decoder": "decoder", "cross": "cross"}


def attention_data(
    trace: Trace,
    *,
    layer: int | None = None,
    head: int | None = None,
    word: int | str | None = None,
    part: str | None = None,
) -> dict[str, Any]:
    """Plain values for JSON: everything, or only one part, layer, head or word.

    {"tokens": [...], "target_tokens": [...] or null,
     "layers": [{"layer": 0, "heads": [0, ...], "queries": [0, ...], "probs": [head][query][key]}, ...],
     "decoder": [the same], "cross": [the same; queries are target tokens, keys are tokens]}
    """
    have = parts(trace)
    made: dict[str, Any] = {"tokens": list(trace.tokens), "target_tokens": trace.target_tokens}
    made |= {field: [] for field in FIELDS.values()}
    for name in have if part is None and have else [part or "encoder"]:
        seen = view(trace, name)
        words = list(range(len(seen.queries))) if word is None else find_word(seen.queries, word)
        chosen = range(len(seen.layers)) if layer is None else [check_layer(seen, layer)]
        made[FIELDS[name]] = [_layer(seen, place, head, words) for place in chosen]
    return made


def _layer(seen: View, layer: int, head: int | None, words: list[int]) -> dict[str, Any]:
    heads = list(range(len(seen.probs(layer)))) if head is None else [check_head(seen, layer, head)]
    probs = np.round(seen.probs(layer)[heads][:, words].astype(np.float64), 4)
    return {"layer": seen.layers[layer].layer, "heads": heads, "queries": words, "probs": probs.tolist()}


def save_attention(
    trace: Trace,
    path: str | os.PathLike[str],
    *,
    layer: int | None = None,
    head: int | None = None,
    word: int | str | None = None,
    part: str | None = None,
    title: str | None = None,
    source_note: str | None = None,
) -> Path:
    """Write a picture (.svg, .png), a page (.html) or numbers (.json); a page opens at the layer, head and word."""
    chosen: dict[str, Any] = {"layer": layer, "head": head, "word": word}
    both = (("title", title), ("source_note", source_note))
    named: dict[str, Any] = {name: value for name, value in both if value is not None}
    return write_figure(
        path,
        svg=lambda: attention_svg(trace, **chosen, part=part or _first(trace)),
        page=lambda: attention_page(trace, **chosen, part=part, **named),
        data=lambda: attention_data(trace, **chosen, part=part),
    )


def save_alignment(
    trace: Trace,
    path: str | os.PathLike[str],
    *,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
    source_note: str = "",
) -> Path:
    """Write which source words each written word looked at: .svg, .png, .json, or .html with every layer and head."""
    chosen: dict[str, Any] = {"layer": layer, "head": head}

    def page() -> str:
        if not words:
            return alignment_page(trace, **chosen, source_note=source_note)
        return figure_page("Alignment", alignment_svg(trace, **chosen, words=True), source_note=source_note)

    return write_figure(
        path,
        svg=lambda: alignment_svg(trace, **chosen, words=words),
        page=page,
        data=lambda: alignment(trace, **chosen, words=words).to_json(),
    )


def _first(trace: Trace) -> str:
    return (parts(trace) or ["encoder"])[0]
