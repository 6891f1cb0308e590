"""One standalone page with every layer and head of a trace, to look around in."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.errors import InputError
from clearhead.explain.attention_lines import check_words
from clearhead.explain.focus import informative_word, requested_word, show_special
from clearhead.explain.headings import heading_text
from clearhead.explain.svg import head_color, visible
from clearhead.explain.tokens import Token
from clearhead.explain.trace_view import View, check_head, check_layer, parts, telling_layer, telling_look, view

if TYPE_CHECKING:
    from clearhead.core.trace import LayerTrace, Trace

    Array = np.ndarray[Any, Any]

STEP = 10_000  # probabilities are kept as whole numbers of 1/10000
MOST_PROBS = 6_000_000  # about 16 MB of page; more would not be pleasant to open
MOST_VECTORS = 200_000  # numbers of queries, keys and scores together; more are left out
WHAT = "Where each word looks"
WHAT_WRITTEN = "Alignment: where the decoder looked while it wrote each word"
SCRIPTS = ("data.js", "parts.js", "lines.js", "heat.js", "overview.js", "steps.js", "page.js")


def attention_page(
    trace: Trace,
    *,
    title: str | None = None,
    source_note: str = "",
    layer: int | None = None,
    head: int | None = None,
    word: int | str | None = None,
    part: str | None = None,
    written: bool = False,
    special: bool = False,
    all_words: bool = False,
) -> str:
    """One HTML file that needs nothing else; it opens at the part, layer, head and word given, or at a telling one.

    Without `title`, the texts are the title; without `word`, it opens on the most informative word, or with `all_words`
    on all of them. Special tokens are hidden at first unless `special`. `written` opens it as an alignment: a heat map,
    whose rows are the words that were written.
    """
    check_words(word, all_words=all_words)
    names = parts(trace)
    views = [view(trace, name, written=written and name == "cross") for name in names] if names else [view(trace)]
    first = next((each for each in views if each.part == part), None) or view(trace, part or views[0].part)
    words = requested_word(first, word)
    opening = {each.part: [] if all_words or written else informative_word(each) for each in views}
    opening |= {first.part: words} if words is not None else {}
    words = opening[first.part] or None
    if layer is not None:
        check_layer(first, layer)
    at = telling_layer(first, words, head) if layer is None else layer
    if head is not None:
        check_head(first, at, head)
    start = {"part": first.part, "layer": at, "head": head, "focus": telling_look(first, at, words, head)[0]}
    start |= {"hide": not show_special(first, special, words)} | ({"view": "heat"} if written else {})
    _check_size(views)
    data = {
        "start": start,
        "parts": [_part(each, opening[each.part], _with_vectors(views)) for each in views],
    }
    script, heading = _script(), heading_text(trace)
    page: str = _template().render(
        title=visible(heading if title is None else title),
        about=visible((WHAT_WRITTEN if written else WHAT) if title is None else heading),
        source_note=visible(source_note),
        data=_quiet(json.dumps(data, separators=(",", ":"))),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=_file("page.css"),
        light=[head_color(number) for number in range(max(each.heads for each in views))],
        dark=[head_color(number, dark_page=True) for number in range(max(each.heads for each in views))],
    )
    return page


def _check_size(views: list[View]) -> None:
    count = sum(layer.probs.size for attention in views for layer in attention.layers)
    if count > MOST_PROBS:
        raise InputError(
            f"This trace has {count:,} probabilities, and a page holds at most {MOST_PROBS:,}. "
            "Take a shorter text, or save one layer as .svg or .json."
        )


def _with_vectors(views: list[View]) -> bool:
    """Whether queries, keys and scores are few enough to go into the page."""
    layers = [layer for attention in views for layer in attention.layers]
    return sum(layer.queries.size + layer.keys.size + layer.scores.size for layer in layers) <= MOST_VECTORS


def _part(attention: View, opening: list[int], vectors: bool) -> dict[str, Any]:
    return {
        "part": attention.part,
        "name": attention.name,
        "opening": opening,  # the pieces of the word that it opens on; none: all words
        "queries": [_token(token) for token in attention.queries],
        "keys": [_token(token) for token in attention.keys],
        "layers": [_layer(layer, vectors) for layer in attention.layers],
    }


def _token(token: Token) -> dict[str, Any]:
    return {"raw": token.raw, "label": token.label, "whole": token.whole, "special": token.special}


def _layer(layer: LayerTrace, vectors: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "heads": layer.probs.shape[0],
        "probs": _base64(np.round(layer.probs.astype(np.float64) * STEP).clip(0, STEP).astype("<u2")),
    }
    arrays = (layer.queries, layer.keys, layer.scores)
    if vectors and layer.has_dot_products and all(np.isfinite(array).all() for array in arrays):
        data["width"] = layer.queries.shape[-1]
        data["q"], data["k"] = _small(layer.queries), _small(layer.keys)
        data["scores"] = _base64(layer.scores.astype("<f4"))
    return data


def _small(array: Array) -> dict[str, Any]:
    """Vectors as 16-bit numbers and what one of them is worth: good to 1/65534 of the largest."""
    unit = float(np.abs(array).max(initial=0.0)) / 32767 or 1.0
    return {"unit": unit, "values": _base64(np.round(array.astype(np.float64) / unit).astype("<i2"))}


def _base64(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _quiet(text: str) -> str:
    """JSON that cannot end its script element or open a comment in it."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def _file(name: str) -> str:
    return (files("clearhead.explain") / "template" / name).read_text("utf-8")


@cache
def _script() -> str:
    inside = "\n".join(_file(name) for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{inside}}})();\n'


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        _file("page.html")
    )
