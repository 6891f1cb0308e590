"""Render an interactive standalone page with all layers and heads of a trace."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.deprecation import renamed_parameters
from clearhead.errors import InputError
from clearhead.explain.attention_lines import check_words
from clearhead.explain.focus import find_informative_word, find_requested_word, needs_special_tokens
from clearhead.explain.headings import join_heading
from clearhead.explain.svg import escape_invisible, head_color
from clearhead.explain.tokens import Token
from clearhead.explain.trace_view import (
    AttentionView,
    check_head,
    check_layer,
    find_informative_layer,
    find_strongest_link,
    list_parts,
    view_part,
)

if TYPE_CHECKING:
    from clearhead.core.trace import LayerTrace, Trace

    Array = np.ndarray[Any, Any]

PROB_STEPS = 10_000  # probabilities are stored in units of 1/10000
MAX_PROBS = 6_000_000  # a page of about 16 MB
MAX_VECTOR_VALUES = 200_000  # of queries, keys and scores; larger traces omit them
SUBTITLE = "Attention of each word"
ALIGNMENT_SUBTITLE = "Alignment: attention of each generated word to the source"
SCRIPTS = ("data.js", "parts.js", "lines.js", "heat.js", "overview.js", "steps.js", "page.js")


@renamed_parameters(written="as_alignment")
def attention_page(
    trace: Trace,
    *,
    title: str | None = None,
    source_note: str = "",
    layer: int | None = None,
    head: int | None = None,
    word: int | str | None = None,
    part: str | None = None,
    as_alignment: bool = False,
    special: bool = False,
    all_words: bool = False,
) -> str:
    """Render a standalone page of all layers and heads, opened at the given part, layer, head and word.

    Without `layer`, an informative layer is selected; without `word`, the most informative word, or with `all_words`
    all words. Without `title`, the traced texts are the title. Special tokens are hidden initially unless `special`.
    `as_alignment` opens the page as a heat map whose rows are the generated tokens.
    """
    check_words(word, all_words=all_words)
    names = list_parts(trace)
    views = (
        [view_part(trace, name, as_alignment=as_alignment and name == "cross") for name in names]
        if names
        else [view_part(trace)]
    )
    first = next((view for view in views if view.part == part), None) or view_part(trace, part or views[0].part)
    words = find_requested_word(first, word)
    opening = {view.part: [] if all_words or as_alignment else find_informative_word(view) for view in views}
    opening |= {first.part: words} if words is not None else {}
    words = opening[first.part] or None
    if layer is not None:
        check_layer(first, layer)
    layer_index = find_informative_layer(first, words, head) if layer is None else layer
    if head is not None:
        check_head(first, layer_index, head)
    start = {
        "part": first.part,
        "layer": layer_index,
        "head": head,
        "focus": find_strongest_link(first, layer_index, words, head)[0],
    }
    start |= {"hide": not needs_special_tokens(first, special, words)} | ({"view": "heat"} if as_alignment else {})
    _check_size(views)
    data = {
        "start": start,
        "parts": [_part_data(view, opening[view.part], _fits_vectors(views)) for view in views],
    }
    script, heading = _join_scripts(), join_heading(trace)
    page: str = _load_page_template().render(
        title=escape_invisible(heading if title is None else title),
        about=escape_invisible((ALIGNMENT_SUBTITLE if as_alignment else SUBTITLE) if title is None else heading),
        source_note=escape_invisible(source_note),
        data=_escape_json(json.dumps(data, separators=(",", ":"))),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=_read_template_file("page.css"),
        light=[head_color(number) for number in range(max(view.heads for view in views))],
        dark=[head_color(number, dark_page=True) for number in range(max(view.heads for view in views))],
    )
    return page


def _check_size(views: list[AttentionView]) -> None:
    count = sum(layer.probs.size for attention in views for layer in attention.layers)
    if count > MAX_PROBS:
        raise InputError(
            f"This trace has {count:,} probabilities, but a page holds at most {MAX_PROBS:,}. "
            "Use a shorter text, or save one layer as .svg or .json."
        )


def _fits_vectors(views: list[AttentionView]) -> bool:
    """Whether queries, keys and scores fit into the page."""
    layers = [layer for attention in views for layer in attention.layers]
    return sum(layer.queries.size + layer.keys.size + layer.scores.size for layer in layers) <= MAX_VECTOR_VALUES


def _part_data(attention: AttentionView, opening: list[int], vectors: bool) -> dict[str, Any]:
    return {
        "part": attention.part,
        "name": attention.name,
        "opening": opening,  # token indices of the initial word; empty: all words
        "queries": [_token_data(token) for token in attention.queries],
        "keys": [_token_data(token) for token in attention.keys],
        "layers": [_layer_data(layer, vectors) for layer in attention.layers],
    }


def _token_data(token: Token) -> dict[str, Any]:
    return {"raw": token.raw, "label": token.label, "whole": token.tooltip, "special": token.special}


def _layer_data(layer: LayerTrace, vectors: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "heads": layer.probs.shape[0],
        "probs": _base64(np.round(layer.probs.astype(np.float64) * PROB_STEPS).clip(0, PROB_STEPS).astype("<u2")),
    }
    arrays = (layer.queries, layer.keys, layer.scores)
    if vectors and layer.has_dot_products and all(np.isfinite(array).all() for array in arrays):
        data["width"] = layer.queries.shape[-1]
        data["q"], data["k"] = _quantize(layer.queries), _quantize(layer.keys)
        data["scores"] = _base64(layer.scores.astype("<f4"))
    return data


def _quantize(array: Array) -> dict[str, Any]:
    """Quantize vectors to int16 with their scale; the error is at most 1/65534 of the maximum."""
    unit = float(np.abs(array).max(initial=0.0)) / 32767 or 1.0
    return {"unit": unit, "values": _base64(np.round(array.astype(np.float64) / unit).astype("<i2"))}


def _base64(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _escape_json(text: str) -> str:
    """Escape JSON so that it cannot end its script element or open a comment."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def _read_template_file(name: str) -> str:
    return (files("clearhead.explain") / "template" / name).read_text("utf-8")


@cache
def _join_scripts() -> str:
    inside = "\n".join(_read_template_file(name) for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{inside}}})();\n'


@cache
def _load_page_template() -> Any:
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        _read_template_file("page.html")
    )
