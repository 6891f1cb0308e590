"""Attention as a table for a terminal: each word with the words it looks at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clearhead.explain.attention_lines import check_words
from clearhead.explain.focus import hidden_share, informative_word, requested_word, show_special, shown_tokens
from clearhead.explain.headings import heading_text
from clearhead.explain.trace_view import FAINTEST, check_any_head, check_head, check_layer, parts, telling_layer, view

if TYPE_CHECKING:
    from clearhead.core.trace import Trace

TOP = 3  # words that each word looks at
Table = tuple[tuple[str, ...], list[tuple[str, ...]], str]


def attention_table(
    trace: Trace,
    *,
    layer: int | None = None,
    head: int | None = None,
    word: int | str | None = None,
    part: str | None = None,
    special: bool = False,
    all_words: bool = False,
) -> Table:
    """Columns, rows and a title: where each word looks in one layer, in one head or on the average of all.

    Without `word`, the most informative word is marked and chooses the layer; special tokens are hidden unless
    `special`, and the last column says what they get.
    """
    check_words(word, all_words=all_words)
    attention = view(trace, part or (parts(trace) or ["encoder"])[0])
    words = requested_word(attention, word)
    special = show_special(attention, special, words)
    marked = informative_word(attention) if words is None and not all_words else []
    if head is not None and layer is None:
        check_any_head(attention, head)
    at = telling_layer(attention, words or marked or None, head) if layer is None else check_layer(attention, layer)
    probs = attention.probs(at).mean(0) if head is None else attention.probs(at)[check_head(attention, at, head)]
    keys = shown_tokens(attention.keys, special)
    hides = len(keys) < len(attention.keys)
    rows = []
    for query in shown_tokens(attention.queries, special) if words is None else words:
        best = sorted(keys, key=lambda key: -float(probs[query, key]))[:TOP]
        firm = (key for key in best if probs[query, key] >= FAINTEST)
        looks = "  ".join(f"{attention.keys[key].label} {probs[query, key]:.2f}" for key in firm)
        share = (f"{float(hidden_share(probs[query], keys)):.2f}",) if hides else ()
        rows.append((("▸ " if query in marked else "") + attention.queries[query].label, looks, *share))
    who = f"head {head}" if head is not None else f"mean of {len(attention.probs(at))} heads"
    title = f"{heading_text(trace)}\n{attention.name}, layer {at} of 0 to {len(attention.layers) - 1}, {who}"
    return ("word", "looks at", *(("special tokens (hidden)",) if hides else ())), rows, title
