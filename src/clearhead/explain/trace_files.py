"""Write the attention of a trace to a file: a picture, a page, or plain values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.explain.alignment import alignment, alignment_page, alignment_svg
from clearhead.explain.attention_lines import attention_svg, check_words
from clearhead.explain.figure import figure_page, write_figure
from clearhead.explain.focus import (
    find_informative_word,
    find_requested_word,
    needs_special_tokens,
    select_tokens,
    sum_hidden_probs,
)
from clearhead.explain.headings import join_heading
from clearhead.explain.trace_page import attention_page
from clearhead.explain.trace_view import (
    AttentionView,
    check_head,
    check_layer,
    label_trace_tokens,
    list_parts,
    view_part,
)

if TYPE_CHECKING:
    from clearhead.core.trace import Trace

DATA_KEYS = {"encoder": "layers", "decoder": "decoder", "cross": "cross"}


def attention_data(
    trace: Trace,
    *,
    layer: int | None = None,
    head: int | None = None,
    word: int | str | None = None,
    part: str | None = None,
    special: bool = False,
) -> dict[str, Any]:
    """Return plain values for JSON: all, or one part, layer, head or word; special tokens only with `special`.

    The keys:

        {"text": ..., "second": ..., "target": ..., "special": false,
         "tokens": [...], "positions": [...], "target_tokens": [...] or null, "target_positions": [...] or null,
         "informative": {"encoder": [indices of the most informative word], ...},
         "layers": [{"layer": 0, "heads": [0, ...], "queries": [0, ...], "probs": [head][query][key],
                     "special_share": [head][query]}, ...],
         "decoder": [the same], "cross": [the same; queries are target tokens, keys are tokens]}
    """
    have = list_parts(trace)
    views = {name: view_part(trace, name) for name in (have if part is None and have else [part or "encoder"])}
    words = {name: find_requested_word(attention, word) for name, attention in views.items()}
    special = any(needs_special_tokens(attention, special, words[name]) for name, attention in views.items())
    source, target = (select_tokens(tokens, special) for tokens in label_trace_tokens(trace))
    data: dict[str, Any] = {
        "text": trace.text,
        "second": trace.second,
        "target": trace.target,
        "special": special,
        "tokens": [trace.tokens[index] for index in source],
        "positions": source,
        "target_tokens": trace.target_tokens and [trace.target_tokens[index] for index in target],
        "target_positions": None if trace.target_tokens is None else target,
        "informative": {},
    }
    data |= {field: [] for field in DATA_KEYS.values()}
    for name, attention in views.items():
        rows, columns = source if name == "encoder" else target, target if name == "decoder" else source
        data["informative"][name] = [rows.index(index) for index in find_informative_word(attention)]
        layers_shown = range(len(attention.layers)) if layer is None else [check_layer(attention, layer)]
        data[DATA_KEYS[name]] = [
            _layer_data(attention, layer_index, head, words[name], (rows, columns)) for layer_index in layers_shown
        ]
    return data


def _layer_data(
    attention: AttentionView, layer: int, head: int | None, words: list[int] | None, axes: tuple[list[int], list[int]]
) -> dict[str, Any]:
    heads = list(range(len(attention.probs(layer)))) if head is None else [check_head(attention, layer, head)]
    rows, columns = axes
    queries = rows if words is None else words
    probs = attention.probs(layer)[heads][:, queries].astype(np.float64)
    return {
        "layer": attention.layers[layer].layer,
        "heads": heads,
        "queries": [rows.index(index) for index in queries],
        "probs": np.round(probs[:, :, columns], 4).tolist(),
        "special_share": np.round(sum_hidden_probs(probs, columns), 4).tolist(),
    }


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
    special: bool = False,
    all_words: bool = False,
) -> Path:
    """Write a picture (.svg, .png), an interactive page (.html) or plain values (.json).

    Without `word`, pictures and pages open on the most informative word, or with `all_words` on all words.
    """
    check_words(word, all_words=all_words)
    options: dict[str, Any] = {"layer": layer, "head": head, "word": word, "special": special}
    page_options: dict[str, Any] = {"title": title, "source_note": source_note or "", "all_words": all_words}
    return write_figure(
        path,
        svg=lambda: attention_svg(trace, **options, part=part or _first_part(trace), all_words=all_words),
        page=lambda: attention_page(trace, **options, part=part, **page_options),
        data=lambda: attention_data(trace, **options, part=part),
    )


def save_alignment(
    trace: Trace,
    path: str | os.PathLike[str],
    *,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
    source_note: str = "",
    special: bool = False,
) -> Path:
    """Write the alignment to .svg, .png, .json, or .html with all layers and heads."""
    options: dict[str, Any] = {"layer": layer, "head": head, "special": special}

    def page() -> str:
        if not words:
            return alignment_page(trace, **options, source_note=source_note)
        title = join_heading(trace) or "Alignment"
        return figure_page(title, alignment_svg(trace, **options, words=True), source_note=source_note)

    return write_figure(
        path,
        svg=lambda: alignment_svg(trace, **options, words=words),
        page=page,
        data=lambda: alignment(trace, **options, words=words).to_json(),
    )


def _first_part(trace: Trace) -> str:
    return (list_parts(trace) or ["encoder"])[0]
