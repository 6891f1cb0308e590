"""Show attention as a table for the terminal: each token with the tokens that it attends to most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clearhead.explain.attention_lines import check_words
from clearhead.explain.focus import (
    find_informative_word,
    find_requested_word,
    needs_special_tokens,
    select_tokens,
    sum_hidden_probs,
)
from clearhead.explain.headings import join_heading
from clearhead.explain.trace_view import (
    MIN_DRAWN_PROB,
    check_any_head,
    check_head,
    check_layer,
    find_informative_layer,
    list_parts,
    view_part,
)

if TYPE_CHECKING:
    from clearhead.core.trace import Trace

TOP_WORDS = 3  # keys shown per query
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
    """Return columns, rows and a title: the attention of one layer, in one head or averaged over heads.

    Without `word`, the most informative word is marked and determines the layer. Special tokens are hidden unless
    `special`, and the last column contains their share of the attention.
    """
    check_words(word, all_words=all_words)
    attention = view_part(trace, part or (list_parts(trace) or ["encoder"])[0])
    words = find_requested_word(attention, word)
    special = needs_special_tokens(attention, special, words)
    marked = find_informative_word(attention) if words is None and not all_words else []
    if head is not None and layer is None:
        check_any_head(attention, head)
    layer_index = (
        find_informative_layer(attention, words or marked or None, head)
        if layer is None
        else check_layer(attention, layer)
    )
    probs = (
        attention.probs(layer_index).mean(0)
        if head is None
        else attention.probs(layer_index)[check_head(attention, layer_index, head)]
    )
    keys = select_tokens(attention.keys, special)
    has_hidden_keys = len(keys) < len(attention.keys)
    rows = []
    for query in select_tokens(attention.queries, special) if words is None else words:
        top_keys = sorted(keys, key=lambda key: -float(probs[query, key]))[:TOP_WORDS]
        visible_keys = (key for key in top_keys if probs[query, key] >= MIN_DRAWN_PROB)
        links = "  ".join(f"{attention.keys[key].label} {probs[query, key]:.2f}" for key in visible_keys)
        special_share = (f"{float(sum_hidden_probs(probs[query], keys)):.2f}",) if has_hidden_keys else ()
        rows.append((("▸ " if query in marked else "") + attention.queries[query].label, links, *special_share))
    head_name = f"head {head}" if head is not None else f"mean of {len(attention.probs(layer_index))} heads"
    title = (
        f"{join_heading(trace)}\n{attention.name}, layer {layer_index} of 0 to {len(attention.layers) - 1}, {head_name}"
    )
    return ("token", "attends to", *(("special tokens (hidden)",) if has_hidden_keys else ())), rows, title
