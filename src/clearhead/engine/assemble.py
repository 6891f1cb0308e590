"""Builds complete graphs from the shape and tensors of a model: one for a full pass, others for decoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clearhead.engine import heads, positions
from clearhead.engine.attention import MASKED_SCORE, AttentionNodes, project_memory
from clearhead.engine.graph import Graph
from clearhead.engine.layers import Dense, GraphBuilder, float_dense
from clearhead.engine.stack import StackOutput, add_stack
from clearhead.shape import ModelShape
from clearhead.tensors import tied_tensors

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array]
TOKEN_DIMS = ("batch", "length")
TARGET_DIMS = ("batch", "target")


@dataclass(frozen=True, kw_only=True)
class GraphSpec:
    """Inputs and outputs of a graph. Only the requested outputs are computed."""

    hidden: bool = False  # every layer
    last: bool = False  # last hidden state of the encoder, or of the only stack
    pooled: bool = False
    logits: bool = False
    has_mask: bool = False  # has a mask as input; without it every token is real
    target: bool = False  # has the decoder's tokens as input
    top: bool = False  # last hidden state of the decoder

    @property
    def only_logits(self) -> bool:
        """Whether the graph returns no hidden states, so that the last layer may compute only what the head reads."""
        return self.logits and not (self.hidden or self.last)


def assemble(
    shape: ModelShape,
    tensors: Tensors,
    spec: GraphSpec,
    *,
    dense: Dense | None = None,
    portable: bool = False,
    names: Mapping[str, str] | None = None,
) -> Graph:
    """Build one pass over a batch of (batch, length) ids; `names` renames inputs and outputs."""
    g = Graph(portable=portable, names=names or {})
    builder = GraphBuilder(g=g, tensors=tensors, dense=dense or float_dense(tensors))
    ids = g.input("ids", "int64", TOKEN_DIMS)
    present = g.input("mask", "bool", TOKEN_DIMS) if spec.has_mask else ""
    segments = g.input("segments", "int64", TOKEN_DIMS) if shape.stack.segments > 1 else ""
    first = spec.only_logits and _reads_first_token_only(shape)
    encoder = _add_stack(
        builder,
        shape,
        "stack",
        ids,
        segments,
        AttentionNodes(query_positions="", key_positions="", present=present),
        first=first,
    )
    if spec.hidden:
        _output_layers(g, "hidden", encoder, TOKEN_DIMS, shape.stack.width)
    if spec.last:
        g.output("last", encoder.last, (*TOKEN_DIMS, shape.stack.width))
    top, top_present, rows = encoder, present, TOKEN_DIMS
    if shape.decoder is not None:
        if not spec.target:
            return g
        targets = g.input("target_ids", "int64", TARGET_DIMS)
        top_present = g.input("target_mask", "bool", TARGET_DIMS) if spec.has_mask else ""
        memory = tuple(project_memory(builder, shape.decoder, encoder.last, "decoder."))
        inputs = AttentionNodes(
            query_positions="",
            key_positions="",
            present=top_present,
            memory=memory,
            memory_bias=_memory_bias(g, present) if present else "",
        )
        top, rows = _add_stack(builder, shape, "decoder", targets, "", inputs), TARGET_DIMS
        if spec.hidden:
            _output_layers(g, "target_hidden", top, rows, shape.decoder.width)
        if spec.top:
            g.output("top", top.last, (*rows, shape.decoder.width))
    _add_heads(builder, shape, spec, top, top_present, rows)
    return g


def _add_heads(
    builder: GraphBuilder, shape: ModelShape, spec: GraphSpec, top: StackOutput, present: str, rows: tuple[str, str]
) -> None:
    """Add the pooler and the heads on the last hidden state."""
    pooled = ""
    needs_pooler = spec.logits and any(
        head_shape is not None and head_shape.pooling == "pooled" for head_shape in (shape.head, shape.second_head)
    )
    if shape.pooler is not None and (spec.pooled or needs_pooler):
        pooled = heads.add_pooler(builder, shape.pooler, top.last)
        if spec.pooled:
            builder.g.output("pooled", pooled, ("batch", shape.stack.width))
    if not spec.logits:
        return
    for name, output_name, head_shape in (
        ("head", "logits", shape.head),
        ("second", "next_sentence", shape.second_head),
    ):
        if head_shape is None:
            continue
        logits = heads.add_head(builder, head_shape, top.last, pooled, present, name, _word_table(shape))
        dims = (*rows, head_shape.outputs) if head_shape.pooling == "each" else ("batch", head_shape.outputs)
        builder.g.output(output_name, logits, rows if head_shape.kind == "replaced" else dims)


def assemble_encoder(shape: ModelShape, tensors: Tensors, *, dense: Dense | None = None) -> Graph:
    """Build the encoder of an encoder-decoder model: keys and values for every decoder layer, computed once."""
    assert shape.decoder is not None
    g = Graph()
    builder = GraphBuilder(g=g, tensors=tensors, dense=dense or float_dense(tensors))
    ids, present = g.input("ids", "int64", TOKEN_DIMS), g.input("mask", "bool", TOKEN_DIMS)
    encoder = _add_stack(
        builder, shape, "stack", ids, "", AttentionNodes(query_positions="", key_positions="", present=present)
    )
    dims = ("batch", shape.decoder.heads, "length", shape.decoder.head_width)
    for layer, pair in enumerate(project_memory(builder, shape.decoder, encoder.last, "decoder.")):
        for name, node in zip(("key", "value"), pair, strict=True):
            g.output(f"memory_{name}.{layer}", node, dims)
    g.output("memory_bias", _memory_bias(g, present), ("batch", 1, 1, "length"))
    return g


def assemble_step(shape: ModelShape, tensors: Tensors, *, dense: Dense | None = None) -> Graph:
    """Build a decoding step for any number of new tokens: the cache is an input, and a longer one is an output."""
    g, top = Graph(), shape.top
    builder = GraphBuilder(g=g, tensors=tensors, dense=dense or float_dense(tensors))
    ids = g.input("ids", "int64", ("batch", "new"))
    queries = g.input("positions", "int64", ("batch", "new"))
    keys = g.input("key_positions", "int64", ("batch", "keys"))
    present = g.input("present", "bool", ("batch", "keys"))
    cache = ("batch", top.heads, "past", top.head_width)
    past = tuple(
        (g.input(f"past_key.{layer}", "float32", cache), g.input(f"past_value.{layer}", "float32", cache))
        for layer in range(top.layers)
    )
    memory: tuple[tuple[str, str], ...] = ()
    memory_bias, part = "", "stack" if shape.decoder is None else "decoder"
    if shape.decoder is not None:
        dims = ("batch", top.heads, "length", top.head_width)
        memory = tuple(
            (g.input(f"memory_key.{layer}", "float32", dims), g.input(f"memory_value.{layer}", "float32", dims))
            for layer in range(top.layers)
        )
        memory_bias = g.input("memory_bias", "float32", ("batch", 1, 1, "length"))
    inputs = AttentionNodes(
        query_positions=queries, key_positions=keys, present=present, past=past, memory=memory, memory_bias=memory_bias
    )
    output = _add_stack(builder, shape, part, ids, "", inputs)
    for layer, pair in enumerate(output.new_cache):
        for name, node in zip(("key", "value"), pair, strict=True):
            g.output(f"present_{name}.{layer}", node, ("batch", top.heads, "keys", top.head_width))
    if shape.head is not None:
        first = g.input("first", "int64", (1,))
        selected = g.add("Slice", output.last, first, g.constant([1 << 31]), g.constant([1]))
        logits = heads.add_head(builder, shape.head, selected, "", "", "head", _word_table(shape))
        g.output("logits", logits, ("batch", "selected", shape.head.outputs))
    return g


def supports_in_place_step(shape: ModelShape) -> bool:
    """Whether a decoder supports steps that update the cache in place: not with rotary or local attention."""
    top = shape.top
    return top.causal and top.relative in ("none", "buckets") and not any(top.local_layers)


def assemble_in_place_step(shape: ModelShape, tensors: Tensors, *, dense: Dense | None = None) -> Graph:
    """Build a decoding step for one new token per row, all at the same position, with caches updated in place."""
    g, top = Graph(), shape.top
    builder = GraphBuilder(g=g, tensors=tensors, dense=dense or float_dense(tensors))
    ids, positions_node = g.input("ids", "int64", ("batch", 1)), g.input("positions", "int64", ("batch", 1))
    in_place = (
        g.input("length", "int32", (1,)),
        g.input("beam_width", "int32", (1,)),
        g.input("cache_indirection", "int32", ("groups", "beams", "capacity")),
    )
    dims = ("batch", top.heads, "capacity", top.head_width)
    past = tuple(
        (g.input(f"past_key.{layer}", "float32", dims), g.input(f"past_value.{layer}", "float32", dims))
        for layer in range(top.layers)
    )
    part = "stack" if shape.decoder is None else "decoder"
    memory: tuple[tuple[str, str], ...] = ()
    memory_bias, global_bias = "", ""
    if top.relative == "buckets":  # every row is at the same position
        keys = g.input("key_positions", "int64", (1, "keys"))
        first = g.add("Slice", positions_node, g.constant([0]), g.constant([1]), g.constant([0]))
        global_bias = positions.bucket_bias(builder, top, first, keys, f"{part}.")
    if shape.decoder is not None:
        dims = ("groups", top.heads, "source", top.head_width)
        memory = tuple(
            (g.input(f"memory_key.{layer}", "float32", dims), g.input(f"memory_value.{layer}", "float32", dims))
            for layer in range(top.layers)
        )
        ones, source_bias = g.constant([1]), g.input("memory_bias", "float32", ("groups", 1, 1, "source"))
        beam_width = g.add("Cast", in_place[1], to=7)
        memory_bias = g.add("Expand", source_bias, g.add("Concat", ones, ones, beam_width, ones, axis=0))
    inputs = AttentionNodes(
        query_positions=positions_node,
        key_positions=positions_node,
        past=past,
        in_place=in_place,
        global_bias=global_bias,
        memory=memory,
        memory_bias=memory_bias,
    )
    output = _add_stack(builder, shape, part, ids, "", inputs)
    for layer, pair in enumerate(output.new_cache):
        for name, node in zip(("key", "value"), pair, strict=True):
            g.output(f"present_{name}.{layer}", node, ("batch", top.heads, "capacity", top.head_width))
    assert shape.head is not None
    logits = heads.add_head(builder, shape.head, output.last, "", "", "head", _word_table(shape))
    g.output("logits", logits, ("batch", 1, shape.head.outputs))
    return g


def assemble_log_probs() -> Graph:
    """Build log softmax over the vocabulary."""
    g = Graph()
    dims = ("batch", "new", "vocabulary")
    g.output("log_probs", g.add("LogSoftmax", g.input("logits", "float32", dims), axis=-1), dims)
    return g


def _add_stack(
    builder: GraphBuilder,
    shape: ModelShape,
    part: str,
    ids: str,
    segments: str,
    inputs: AttentionNodes,
    *,
    first: bool = False,
) -> StackOutput:
    """Add one of the two stacks; positions count from 0 unless given."""
    stack_shape = shape.stack if part == "stack" else shape.decoder
    assert stack_shape is not None
    token_table = tied_tensors(shape).get(f"{part}.embed.token.weight", f"{part}.embed.token.weight")
    if not inputs.query_positions:
        positions_node = positions.count_positions(builder.g, ids)
        inputs = replace(inputs, query_positions=positions_node, key_positions=positions_node)
    return add_stack(builder, stack_shape, ids, segments, inputs, f"{part}.", token_table, first=first)


def _memory_bias(g: Graph, present: str) -> str:
    """Build the bias that masks the encoder's padding, the same for every query: (batch, 1, 1, length)."""
    row = g.add("Unsqueeze", present, g.constant([1, 2]))
    return g.add("Where", row, g.scalar(0.0), g.scalar(MASKED_SCORE))


def _word_table(shape: ModelShape) -> str:
    """Name of the embedding table that a tied head shares."""
    return tied_tensors(shape).get("head.out.weight", "stack.embed.token.weight")


def _reads_first_token_only(shape: ModelShape) -> bool:
    """Whether every head reads only the first token, so that the last layer can skip the others."""
    head_shapes = [head_shape for head_shape in (shape.head, shape.second_head) if head_shape is not None]
    stack_shape = shape.stack
    reads_first = all(head_shape.pooling in ("first", "pooled") for head_shape in head_shapes) and bool(head_shapes)
    is_local_free = stack_shape.relative != "disentangled" and not stack_shape.causal and not stack_shape.conv_kernel
    return reads_first and is_local_free and shape.decoder is None and stack_shape.layers > 1


def _output_layers(g: Graph, name: str, output: StackOutput, rows: tuple[str, str], width: int) -> None:
    for layer, value in enumerate(output.hidden):
        g.output(f"{name}.{layer}", value, (*rows, width))
