"""Traces with random attention: any tokens, any number of layers and heads, with or without a decoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.core.trace import LayerTrace, Trace

EXAMPLE_TOKENS = [
    "[CLS]",
    "the",
    "animal",
    "didn",
    "'",
    "t",
    "cross",
    "the",
    "street",
    "because",
    "it",
    "was",
    "too",
    "tired",
]
EXAMPLE_TOKENS += ["[SEP]"]
HOSTILE = [
    "[CLS]",
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "\"'`&amp;",
    "]]>",
    "<!--",
    "🦊👩‍👩‍👧",
    "שלום",
    "\u202eevil",
    "\x00\x0b\ufffe\ud800",
    "x" * 5000,
    "##ing",
    "",
    " ",
    "{{ 7*7 }}",
    "${alert(3)}",
    "[SEP]",
]


def make_layer(layer: int, rng: Any, heads: int, queries: int, keys: int, *, width: int, causal: bool) -> LayerTrace:
    """Compute a layer of attention over random vectors."""
    q = rng.normal(size=(heads, queries, width)).astype("f4") * 2
    k, v = (rng.normal(size=(heads, keys, width)).astype("f4") for _ in range(2))
    scores = q @ k.transpose(0, 2, 1) / np.float32(np.sqrt(width))
    if causal:
        scores = np.where(np.triu(np.ones((queries, keys), bool), 1), np.float32(-1e9), scores)
    probs = np.exp(scores - scores.max(-1, keepdims=True))
    probs /= probs.sum(-1, keepdims=True)
    return LayerTrace(layer=layer, queries=q, keys=k, values=v, scores=scores, probs=probs, context=probs @ v)


def make_trace(
    tokens: list[str] | None = None,
    target: list[str] | None = None,
    *,
    layers: int = 2,
    heads: int = 3,
    width: int = 8,
    causal: bool = False,
    seed: int = 0,
) -> Trace:
    """Return a trace of an encoder or a causal model, with a decoder if `target` is set."""
    tokens = list(EXAMPLE_TOKENS if tokens is None else tokens)
    rng = np.random.default_rng(seed)

    def part(queries: int, keys: int, causal: bool) -> list[LayerTrace]:
        return [make_layer(n, rng, heads, queries, keys, width=width, causal=causal) for n in range(layers)]

    return Trace(
        tokens=tokens,
        target_tokens=target,
        layers=part(len(tokens), len(tokens), causal),
        decoder=[] if target is None else part(len(target), len(target), True),
        cross=[] if target is None else part(len(target), len(tokens), False),
        hidden=[],
        target_hidden=None,
        logits=None,
    )
