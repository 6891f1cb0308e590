"""Attention as operators: one fused kernel, or Q K^T, softmax and V written out for other runtimes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clearhead.engine.graph import Graph
from clearhead.engine.layers import GraphBuilder
from clearhead.engine.positions import bucket_bias, disentangled_rows, rotary_tables
from clearhead.shape import Shape

Array = np.ndarray[Any, Any]
LOW = -1e9  # what a forbidden score gets


@dataclass(frozen=True, kw_only=True)
class AttentionNodes:
    """What every attention of one pass is given, by name; empty: there is none."""

    queries: str  # (1|batch, q): the places of the tokens that ask
    keys: str  # (1|batch, k): the places of all tokens so far
    present: str = ""  # (batch, k): which of those are real
    wide: str = ""  # bias of layers that see everything, (1|batch, 1|heads, q, k)
    narrow: str = ""  # and of layers that see a window
    turned: tuple[tuple[str, str], ...] = ()  # cosine and sine: of layers that see everything, of those with a window
    past: tuple[tuple[str, str], ...] = ()  # cached keys and values of each layer
    shared: tuple[str, str, str] | None = None  # one word a row, caches written in place: words so far, group, holders
    memory: tuple[tuple[str, str], ...] = ()  # keys and values of the encoder's words, for each layer
    memory_bias: str = ""
    first: bool = False  # only the first token of each text asks


def add_shared_biases(parts: GraphBuilder, shape: Shape, seen: AttentionNodes, prefix: str) -> AttentionNodes:
    """The same with the biases and angles that all layers share."""
    if seen.shared is not None:  # every key that there is comes before the word
        return seen
    local = any(shape.local_layers)
    made = replace(
        seen,
        wide=_bias(parts, shape, seen, prefix, local=False),
        narrow=_bias(parts, shape, seen, prefix, local=True) if local else "",
    )
    if shape.relative == "rotary":
        made = replace(
            made, turned=tuple(rotary_tables(parts.g, shape, seen.keys, local=here) for here in (False, True))
        )
    return made


def _bias(parts: GraphBuilder, shape: Shape, seen: AttentionNodes, prefix: str, *, local: bool) -> str:
    """Mask and shared position bias as one number to add to each score."""
    g = parts.g
    asks = g.add("Unsqueeze", seen.queries, g.constant([1, 3]))  # (1|batch, 1, q, 1)
    keys = g.add("Unsqueeze", seen.keys, g.constant([1, 2]))  # (1|batch, 1, 1, k)
    rules = []
    if seen.present:
        rules.append(g.add("Unsqueeze", seen.present, g.constant([1, 2])))
    if shape.causal:  # a word never sees those after it
        rules.append(g.add("LessOrEqual", keys, asks))
    if local and shape.window is not None:
        gap = g.add("Abs", g.add("Sub", keys, asks))
        rules.append(g.add("LessOrEqual", gap, g.constant(shape.window // 2)))
    shared = bucket_bias(parts, shape, seen.queries, seen.keys, prefix) if shape.relative == "buckets" else ""
    if not rules:
        return shared
    see = rules[0]
    for rule in rules[1:]:
        see = g.add("And", see, rule)
    # a bias must have all its queries and keys, even where a rule is the same for all of them
    flat = shared or g.add("Cast", g.add("Mul", g.add("Sub", keys, asks), g.constant(0)), to=1)
    return g.add("Where", see, flat, g.scalar(LOW))


def attend(
    g: Graph,
    q: str,
    k: str,
    v: str,
    shape: Shape,
    *,
    scale: float,
    bias: str = "",
    added: str = "",
    split: bool = False,
) -> str:
    """softmax(Q K^T scale + added) V for (batch, length, width); `bias` is that of the three dense steps end to end.

    With `split`, keys and values are (batch, heads, length, head_width) already.
    """
    if not g.portable:
        inputs = [q, k, v, bias, "", added]
        while not inputs[-1]:
            inputs.pop()
        return g.add("MultiHeadAttention", *inputs, num_heads=shape.heads, scale=scale)
    heads = []
    for place, given in enumerate((q, k, v)):
        x = given
        if bias:
            inner = shape.heads * shape.head_width
            x = g.add("Add", x, g.weight(f"{bias}.{place}", g.weights[bias][place * inner : (place + 1) * inner]))
        heads.append(x if split and place else split_heads(g, x, shape))
    scores = g.add("Mul", g.add("MatMul", heads[0], g.add("Transpose", heads[1], perm=[0, 1, 3, 2])), g.scalar(scale))
    probs = g.add("Softmax", g.add("Add", scores, added) if added else scores, axis=-1)
    return merge_heads(g, g.add("MatMul", probs, heads[2]))


def split_heads(g: Graph, x: str, shape: Shape) -> str:
    """(batch, length, heads * head_width) to (batch, heads, length, head_width)."""
    split = g.add("Reshape", x, g.constant([0, 0, shape.heads, shape.head_width]))
    return g.add("Transpose", split, perm=[0, 2, 1, 3])


def merge_heads(g: Graph, x: str) -> str:
    """And back."""
    return g.add("Reshape", g.add("Transpose", x, perm=[0, 2, 1, 3]), g.constant([0, 0, -1]))


def self_attention(
    parts: GraphBuilder, shape: Shape, x: str, name: str, block: int, layer: int, seen: AttentionNodes
) -> tuple[str, tuple[str, str] | None]:
    """Contexts of all heads side by side, before W_O; and the keys and values to keep, where there is a cache."""
    g = parts.g
    local = shape.is_local(block)
    scale = shape.score_scale / (block + 1 if shape.scale_by_layer else 1)
    names = [f"{name}.{part}" for part in "qkv"]
    bias = parts.bias(*names)
    if seen.first:
        asking = g.add("Gather", x, g.constant([0]), axis=1)
        (q,), (k, v) = parts.product(asking, names[0]), parts.product(x, *names[1:])
    else:
        q, k, v = parts.product(x, *names)
    if seen.shared is not None:
        return _in_place_attention(parts, shape, (q, k, v), bias, scale, layer, seen)
    if bias and (seen.turned or seen.past or shape.relative == "disentangled"):
        q, k, v = (g.add("Add", one, parts.bias(own)) for one, own in zip((q, k, v), names, strict=True))
        bias = ""
    if seen.turned:
        start, (cos, sin) = g.constant([0]), seen.turned[local]
        k = g.add("RotaryEmbedding", k, start, cos, sin, num_heads=shape.heads)
        if not seen.first:  # the first token's angle is zero
            q = g.add("RotaryEmbedding", q, start, cos, sin, num_heads=shape.heads)
    added = seen.narrow if local else seen.wide
    kept = None
    if seen.past:
        past = seen.past[layer]
        k, v = (g.add("Concat", old, split_heads(g, new, shape), axis=2) for old, new in zip(past, (k, v), strict=True))
        kept = (k, v)
    if shape.relative == "disentangled":
        added = _add_disentangled_bias(parts, shape, q, k, name, scale, added)
    return attend(g, q, k, v, shape, scale=scale, bias=bias, added=added, split=bool(seen.past)), kept


def _in_place_attention(
    parts: GraphBuilder,
    shape: Shape,
    qkv: tuple[str, str, str],
    bias: str,
    scale: float,
    layer: int,
    seen: AttentionNodes,
) -> tuple[str, tuple[str, str]]:
    """One new word of each row against caches that it is written into; a row may read what its neighbours hold."""
    assert seen.shared is not None
    length, group, holders = seen.shared
    inputs = [*qkv, "", seen.wide, *seen.past[layer], length, group, holders, bias]
    made = parts.g.add_with_outputs(
        "DecoderMaskedMultiHeadAttention",
        *inputs,
        outputs=("", f"kept_key.{layer}", f"kept_value.{layer}"),
        num_heads=shape.heads,
        scale=scale,
        past_present_share_buffer=1,
    )
    return made[0], (made[1], made[2])


def cross_attention(
    parts: GraphBuilder, shape: Shape, x: str, name: str, block: int, layer: int, seen: AttentionNodes
) -> str:
    """Queries from below, keys and values from the encoder's words, split into heads already."""
    scale = shape.score_scale / (block + 1 if shape.scale_by_layer else 1)
    k, v = seen.memory[layer]
    q = parts.linear(x, f"{name}.q")
    added, g = seen.memory_bias, parts.g
    if seen.shared is not None:  # rows that ask one source are its queries
        inner = shape.heads * shape.head_width
        asked = g.add("Reshape", q, g.add("Concat", g.dim(k, 0), g.constant([-1, inner]), axis=0))
        found = attend(g, asked, k, v, shape, scale=scale, added=added, split=True)
        return g.add("Reshape", found, g.constant([-1, 1, inner]))
    if added:  # (batch, 1, 1, k) for every query alike
        length = parts.g.dim(q, 1)
        one = parts.g.constant([1])
        added = parts.g.add("Expand", added, parts.g.add("Concat", one, one, length, one, axis=0))
    return attend(parts.g, q, k, v, shape, scale=scale, added=added, split=True)


def project_memory(parts: GraphBuilder, shape: Shape, memory: str, prefix: str) -> list[tuple[str, str]]:
    """The encoder's words as each layer of the decoder sees them: keys and values, computed once."""
    made = []
    for block in shape.block_of_layer:
        name = f"{prefix}blocks.{block}.cross.inner"
        products = zip("kv", parts.product(memory, f"{name}.k", f"{name}.v"), strict=True)
        biases = (parts.bias(f"{name}.{part}") for part in "kv")
        pair = [
            split_heads(parts.g, parts.g.add("Add", one, bias) if bias else one, shape)
            for (_, one), bias in zip(products, biases, strict=True)
        ]
        made.append((pair[0], pair[1]))
    return made


def _add_disentangled_bias(
    parts: GraphBuilder, shape: Shape, q: str, k: str, name: str, scale: float, added: str
) -> str:
    """DeBERTa: content looks at distance (c2p) and distance at content (p2c).

    A text of n tokens has 2n - 1 distances. Each query meets one vector for each of them, in falling order, so that a
    query's own part of the row begins one later than the one before: the row is cut askew, without an index per score.
    """
    g = parts.g
    length = g.dim(k, 1)  # (1,)
    rows, reach = disentangled_rows(shape)
    count = g.add("Squeeze", length)
    steps = g.add("Range", g.constant(0), g.add("Mul", count, g.constant(2)), g.constant(1))
    last = g.add("Sub", count, g.constant(1))
    falling = g.add("Sub", last, steps)  # n - 1, n - 2, ..., -n
    for term, x, part in (("c2p", q, "k"), ("p2c", k, "q")):
        if term not in shape.relative_terms:
            continue
        table = _position_table(parts, shape, name, part, rows, scale)  # (distances, inner), scaled
        gaps = falling if term == "c2p" else g.add("Neg", falling)
        low, high = g.constant(-reach), g.constant(reach)
        index = g.add("Add", g.add("Clip", gaps, low, high), high)
        met = g.add("Gather", table, index, axis=0)  # (2 n, inner)
        met = g.add("Reshape", met, g.constant([0, shape.heads, shape.head_width]))
        scores = g.add(
            "MatMul", split_heads(g, x, shape), g.add("Transpose", met, perm=[1, 2, 0])
        )  # (batch, heads, n, 2 n)
        askew = _skew(g, scores, length, last)
        askew = askew if term == "c2p" else g.add("Transpose", askew, perm=[0, 1, 3, 2])
        added = g.add("Add", added, askew) if added else askew
    return added


def _skew(g: Graph, scores: str, length: str, last: str) -> str:
    """(batch, heads, n, 2 n) to (batch, heads, n, n): row i from its column n - 1 - i on."""
    flat = g.add("Reshape", scores, g.constant([0, 0, -1]))
    begin = g.add("Unsqueeze", last, g.constant([0]))
    row = g.add("Sub", g.add("Mul", length, g.constant(2)), g.constant(1))  # 2 n - 1
    end = g.add("Add", begin, g.add("Mul", length, row))
    kept = g.add("Slice", flat, begin, end, g.constant([2]))
    zero = g.constant([0])
    square = g.add("Reshape", kept, g.add("Concat", zero, zero, length, row, axis=0))
    return g.add("Slice", square, zero, length, g.constant([3]))


def _position_table(parts: GraphBuilder, shape: Shape, name: str, part: str, rows: Array, scale: float) -> str:
    """The vector of each distance as a query or key of this layer, worked out once: constants of the model."""
    prefix = name.partition("blocks.")[0]
    own = "" if shape.share_projections else "position_"
    table = parts.tensors[f"{prefix}relative.table.weight"].astype(np.float64)
    if shape.relative_norm:
        table = table - table.mean(-1, keepdims=True)
        table = table / np.sqrt((table**2).mean(-1, keepdims=True) + shape.eps)
        table = table * parts.tensors[f"{prefix}relative.norm.weight"] + parts.tensors[f"{prefix}relative.norm.bias"]
    made = table @ parts.tensors[f"{name}.{own}{part}.weight"].astype(np.float64).T
    if parts.has(f"{name}.{own}{part}.bias"):
        made = made + parts.tensors[f"{name}.{own}{part}.bias"]
    return parts.g.weight(f"{name}.{own}{part}.table", (made * scale).astype(np.float32)[rows])
