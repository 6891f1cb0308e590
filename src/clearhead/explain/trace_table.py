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
    seen = view(trace, part or (parts(trace) or ["encoder"])[0])
    words = requested_word(seen, word)
    special = show_special(seen, special, words)
    marked = informative_word(seen) if words is None and not all_words else []
    if head is not None and layer is None:
        check_any_head(seen, head)
    at = telling_layer(seen, words or marked or None, head) if layer is None else check_layer(seen, layer)
    probs = seen.probs(at).mean(0) if head is None else seen.probs(at)[check_head(seen, at, head)]
    keys = shown_tokens(seen.keys, special)
    hides = len(keys) < len(seen.keys)
    rows = []
    for place in shown_tokens(seen.queries, special) if words is None else words:
        best = sorted(keys, key=lambda key: -float(probs[place, key]))[:TOP]
        firm = (key for key in best if probs[place, key] >= FAINTEST)
        looks = "  ".join(f"{seen.keys[key].label} {probs[place, key]:.2f}" for key in firm)
        share = (f"{float(hidden_share(probs[place], keys)):.2f}",) if hides else ()
        rows.append((("▸ " if place in marked else "") + seen.queries[place].label, looks, *share))
    who = f"head {head}" if head is not None else f"mean of {len(seen.probs(at))} heads"
    title = f"{heading_text(trace)}\n{seen.name}, layer {at} of 0 to {len(seen.layers) - 1}, {who}"
    return ("word", "looks at", *(("special tokens (hidden)",) if hides else ())), rows, title
