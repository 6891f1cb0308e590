"""Attention as ONNX operators: one fused kernel, or Q K^T, softmax and V as standard operators."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clearhead.engine.graph import Graph
from clearhead.engine.layers import GraphBuilder
from clearhead.engine.positions import bucket_bias, disentangled_rows, rotary_tables
from clearhead.shape import Shape

Array = np.ndarray[Any, Any]
MASKED_SCORE = -1e9  # probability exactly zero after the softmax


@dataclass(frozen=True, kw_only=True)
class AttentionNodes:
    """Names of the graph values that every attention of one pass reads; empty if absent."""

    query_positions: str  # (1|batch, q): positions of the query tokens
    key_positions: str  # (1|batch, k): positions of all tokens, including cached ones
    present: str = ""  # (batch, k): which keys are real tokens
    global_bias: str = ""  # bias of layers with global attention, (1|batch, 1|heads, q, k)
    local_bias: str = ""  # bias of layers with a window
    rotary: tuple[tuple[str, str], ...] = ()  # cosines and sines of global and of local layers
    past: tuple[tuple[str, str], ...] = ()  # cached keys and values of each layer
    in_place: tuple[str, str, str] | None = None  # caches written in place: length, beam width, cache indirection
    memory: tuple[tuple[str, str], ...] = ()  # keys and values of the encoder for each layer
    memory_bias: str = ""
    first_only: bool = False  # only the first token of each text is a query


def add_shared_biases(builder: GraphBuilder, shape: Shape, inputs: AttentionNodes, prefix: str) -> AttentionNodes:
    """Add the biases and rotary tables that all layers share."""
    if inputs.in_place is not None:  # every cached key precedes the new token
        return inputs
    local = any(shape.local_layers)
    shared = replace(
        inputs,
        global_bias=_bias(builder, shape, inputs, prefix, local=False),
        local_bias=_bias(builder, shape, inputs, prefix, local=True) if local else "",
    )
    if shape.relative == "rotary":
        tables = tuple(
            rotary_tables(builder.g, shape, inputs.key_positions, local=is_local) for is_local in (False, True)
        )
        shared = replace(shared, rotary=tables)
    return shared


def _bias(builder: GraphBuilder, shape: Shape, inputs: AttentionNodes, prefix: str, *, local: bool) -> str:
    """Combine the mask and the shared position bias into one bias to add to the scores."""
    g = builder.g
    queries = g.add("Unsqueeze", inputs.query_positions, g.constant([1, 3]))  # (1|batch, 1, q, 1)
    keys = g.add("Unsqueeze", inputs.key_positions, g.constant([1, 2]))  # (1|batch, 1, 1, k)
    rules = []
    if inputs.present:
        rules.append(g.add("Unsqueeze", inputs.present, g.constant([1, 2])))
    if shape.causal:  # causal mask: a token attends only to itself and earlier tokens
        rules.append(g.add("LessOrEqual", keys, queries))
    if local and shape.window is not None:
        gap = g.add("Abs", g.add("Sub", keys, queries))
        rules.append(g.add("LessOrEqual", gap, g.constant(shape.window // 2)))
    position_bias = ""
    if shape.relative == "buckets":
        position_bias = bucket_bias(builder, shape, inputs.query_positions, inputs.key_positions, prefix)
    if not rules:
        return position_bias
    visible = rules[0]
    for rule in rules[1:]:
        visible = g.add("And", visible, rule)
    # the kernel needs the full (q, k) shape, even if a rule is the same for all queries
    full_bias = position_bias or g.add("Cast", g.add("Mul", g.add("Sub", keys, queries), g.constant(0)), to=1)
    return g.add("Where", visible, full_bias, g.scalar(MASKED_SCORE))


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
    """softmax(Q K^T scale + added) V for (batch, length, width); `bias` concatenates the biases of the projections.

    With `split`, keys and values already have the shape (batch, heads, length, head_width).
    """
    if not g.portable:
        operands = [q, k, v, bias, "", added]
        while not operands[-1]:
            operands.pop()
        return g.add("MultiHeadAttention", *operands, num_heads=shape.heads, scale=scale)
    heads = []
    for index, x in enumerate((q, k, v)):
        if bias:
            inner = shape.heads * shape.head_width
            x = g.add("Add", x, g.weight(f"{bias}.{index}", g.weights[bias][index * inner : (index + 1) * inner]))
        heads.append(x if split and index else split_heads(g, x, shape))
    scores = g.add("Mul", g.add("MatMul", heads[0], g.add("Transpose", heads[1], perm=[0, 1, 3, 2])), g.scalar(scale))
    probs = g.add("Softmax", g.add("Add", scores, added) if added else scores, axis=-1)
    return merge_heads(g, g.add("MatMul", probs, heads[2]))


def split_heads(g: Graph, x: str, shape: Shape) -> str:
    """(batch, length, heads * head_width) to (batch, heads, length, head_width)."""
    split = g.add("Reshape", x, g.constant([0, 0, shape.heads, shape.head_width]))
    return g.add("Transpose", split, perm=[0, 2, 1, 3])


def merge_heads(g: Graph, x: str) -> str:
    """(batch, heads, length, head_width) to (batch, length, heads * head_width)."""
    return g.add("Reshape", g.add("Transpose", x, perm=[0, 2, 1, 3]), g.constant([0, 0, -1]))


def self_attention(
    builder: GraphBuilder, shape: Shape, x: str, name: str, block: int, layer: int, inputs: AttentionNodes
) -> tuple[str, tuple[str, str] | None]:
    """Compute the concatenated contexts of all heads, before W_O, and the new cache if there is one."""
    g = builder.g
    local = shape.is_local(block)
    scale = shape.score_scale / (block + 1 if shape.scale_by_layer else 1)
    names = [f"{name}.{part}" for part in "qkv"]
    bias = builder.bias(*names)
    if inputs.first_only:
        first_token = g.add("Gather", x, g.constant([0]), axis=1)
        (q,), (k, v) = builder.product(first_token, names[0]), builder.product(x, *names[1:])
    else:
        q, k, v = builder.product(x, *names)
    if inputs.in_place is not None:
        return _in_place_attention(builder, shape, (q, k, v), bias, scale, layer, inputs)
    if bias and (inputs.rotary or inputs.past or shape.relative == "disentangled"):
        q, k, v = (
            g.add("Add", projected, builder.bias(part)) for projected, part in zip((q, k, v), names, strict=True)
        )
        bias = ""
    if inputs.rotary:
        start, (cos, sin) = g.constant([0]), inputs.rotary[local]
        k = g.add("RotaryEmbedding", k, start, cos, sin, num_heads=shape.heads)
        if not inputs.first_only:  # the rotation of position 0 is the identity
            q = g.add("RotaryEmbedding", q, start, cos, sin, num_heads=shape.heads)
    score_bias = inputs.local_bias if local else inputs.global_bias
    new_cache = None
    if inputs.past:
        past = inputs.past[layer]
        k, v = (
            g.add("Concat", cached, split_heads(g, new, shape), axis=2)
            for cached, new in zip(past, (k, v), strict=True)
        )
        new_cache = (k, v)
    if shape.relative == "disentangled":
        score_bias = _add_disentangled_bias(builder, shape, q, k, name, scale, score_bias)
    return attend(g, q, k, v, shape, scale=scale, bias=bias, added=score_bias, split=bool(inputs.past)), new_cache


def _in_place_attention(
    builder: GraphBuilder,
    shape: Shape,
    qkv: tuple[str, str, str],
    bias: str,
    scale: float,
    layer: int,
    inputs: AttentionNodes,
) -> tuple[str, tuple[str, str]]:
    """Attend from one new token per row to caches that are updated in place; beams read each other's rows."""
    assert inputs.in_place is not None
    length, beam_width, cache_indirection = inputs.in_place
    operands = [*qkv, "", inputs.global_bias, *inputs.past[layer], length, beam_width, cache_indirection, bias]
    outputs = builder.g.add_with_outputs(
        "DecoderMaskedMultiHeadAttention",
        *operands,
        outputs=("", f"present_key.{layer}", f"present_value.{layer}"),
        num_heads=shape.heads,
        scale=scale,
        past_present_share_buffer=1,
    )
    return outputs[0], (outputs[1], outputs[2])


def cross_attention(
    builder: GraphBuilder, shape: Shape, x: str, name: str, block: int, layer: int, inputs: AttentionNodes
) -> str:
    """Attention to the source, whose keys and values are already split into heads."""
    scale = shape.score_scale / (block + 1 if shape.scale_by_layer else 1)
    k, v = inputs.memory[layer]
    q = builder.linear(x, f"{name}.q")
    score_bias, g = inputs.memory_bias, builder.g
    if inputs.in_place is not None:  # all beams of one source become its queries
        inner = shape.heads * shape.head_width
        queries = g.add("Reshape", q, g.add("Concat", g.dim(k, 0), g.constant([-1, inner]), axis=0))
        context = attend(g, queries, k, v, shape, scale=scale, added=score_bias, split=True)
        return g.add("Reshape", context, g.constant([-1, 1, inner]))
    if score_bias:  # (batch, 1, 1, k), the same for every query
        length = builder.g.dim(q, 1)
        ones = builder.g.constant([1])
        score_bias = builder.g.add("Expand", score_bias, builder.g.add("Concat", ones, ones, length, ones, axis=0))
    return attend(builder.g, q, k, v, shape, scale=scale, added=score_bias, split=True)


def project_memory(builder: GraphBuilder, shape: Shape, memory: str, prefix: str) -> list[tuple[str, str]]:
    """Project the encoder's last hidden state to keys and values of each decoder layer, once per source."""
    projected = []
    for block in shape.block_of_layer:
        name = f"{prefix}blocks.{block}.cross.inner"
        products = builder.product(memory, f"{name}.k", f"{name}.v")
        biases = (builder.bias(f"{name}.{part}") for part in "kv")
        pair = [
            split_heads(builder.g, builder.g.add("Add", node, bias) if bias else node, shape)
            for node, bias in zip(products, biases, strict=True)
        ]
        projected.append((pair[0], pair[1]))
    return projected


def _add_disentangled_bias(
    builder: GraphBuilder, shape: Shape, q: str, k: str, name: str, scale: float, score_bias: str
) -> str:
    """Add DeBERTa's content-to-position (c2p) and position-to-content (p2c) scores.

    A text of n tokens has 2n - 1 distances. Each query is multiplied with one vector per distance, in descending order.
    The n scores of each query therefore start one column after those of the previous query, so they are extracted by
    skewing the matrix, without an index per score.
    """
    g = builder.g
    length = g.dim(k, 1)  # (1,)
    rows, reach = disentangled_rows(shape)
    count = g.add("Squeeze", length)
    steps = g.add("Range", g.constant(0), g.add("Mul", count, g.constant(2)), g.constant(1))
    last = g.add("Sub", count, g.constant(1))
    falling = g.add("Sub", last, steps)  # n - 1, n - 2, ..., -n
    for term, x, part in (("c2p", q, "k"), ("p2c", k, "q")):
        if term not in shape.relative_terms:
            continue
        table = _position_table(builder, shape, name, part, rows, scale)  # (distances, inner), scaled
        distances = falling if term == "c2p" else g.add("Neg", falling)
        low, high = g.constant(-reach), g.constant(reach)
        index = g.add("Add", g.add("Clip", distances, low, high), high)
        distance_vectors = g.add("Gather", table, index, axis=0)  # (2 n, inner)
        distance_vectors = g.add("Reshape", distance_vectors, g.constant([0, shape.heads, shape.head_width]))
        scores = g.add(
            "MatMul", split_heads(g, x, shape), g.add("Transpose", distance_vectors, perm=[1, 2, 0])
        )  # (batch, heads, n, 2 n)
        skewed = _skew(g, scores, length, last)
        skewed = skewed if term == "c2p" else g.add("Transpose", skewed, perm=[0, 1, 3, 2])
        score_bias = g.add("Add", score_bias, skewed) if score_bias else skewed
    return score_bias


def _skew(g: Graph, scores: str, length: str, last: str) -> str:
    """(batch, heads, n, 2 n) to (batch, heads, n, n): row i starts at column n - 1 - i."""
    flat = g.add("Reshape", scores, g.constant([0, 0, -1]))
    start = g.add("Unsqueeze", last, g.constant([0]))
    row = g.add("Sub", g.add("Mul", length, g.constant(2)), g.constant(1))  # 2 n - 1
    end = g.add("Add", start, g.add("Mul", length, row))
    window = g.add("Slice", flat, start, end, g.constant([2]))
    zero = g.constant([0])
    square = g.add("Reshape", window, g.add("Concat", zero, zero, length, row, axis=0))
    return g.add("Slice", square, zero, length, g.constant([3]))


def _position_table(builder: GraphBuilder, shape: Shape, name: str, part: str, rows: Array, scale: float) -> str:
    """Project the distance embeddings to queries or keys of this layer; they are constants of the model."""
    prefix = name.partition("blocks.")[0]
    projection_prefix = "" if shape.share_projections else "position_"
    table = builder.tensors[f"{prefix}relative.table.weight"].astype(np.float64)
    if shape.relative_norm:
        table = table - table.mean(-1, keepdims=True)
        table = table / np.sqrt((table**2).mean(-1, keepdims=True) + shape.eps)
        table = (
            table * builder.tensors[f"{prefix}relative.norm.weight"] + builder.tensors[f"{prefix}relative.norm.bias"]
        )
    projected = table @ builder.tensors[f"{name}.{projection_prefix}{part}.weight"].astype(np.float64).T
    if builder.has(f"{name}.{projection_prefix}{part}.bias"):
        projected = projected + builder.tensors[f"{name}.{projection_prefix}{part}.bias"]
    return builder.g.weight(f"{name}.{projection_prefix}{part}.table", (projected * scale).astype(np.float32)[rows])
