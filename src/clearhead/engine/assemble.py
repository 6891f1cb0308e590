"""Whole graphs out of a model's shape and tensors: one for what is asked of it, and two to decode word by word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.engine import heads, positions
from clearhead.engine.attention import LOW, AttentionNodes, project_memory
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
    """What a graph is to give. Less is faster: nothing is computed that nobody asked for."""

    hidden: bool = False  # every layer
    last: bool = False  # the top of the encoder, or of GPT's only stack
    pooled: bool = False
    logits: bool = False
    has_mask: bool = False  # takes a mask; without one every token is real
    target: bool = False  # takes the words of a decoder
    top: bool = False  # the top of that decoder

    @property
    def only_logits(self) -> bool:
        """Whether one token of the last layer may be all that is needed."""
        return self.logits and not (self.hidden or self.last)


def assemble(
    shape: ModelShape,
    tensors: Tensors,
    wanted: GraphSpec,
    *,
    dense: Dense | None = None,
    portable: bool = False,
    names: Mapping[str, str] | None = None,
) -> Graph:
    """One pass over a batch: (batch, length) ids in, what is wanted out, under the `names` that others know."""
    g = Graph(portable=portable, names=names or {})
    parts = GraphBuilder(g=g, tensors=tensors, dense=dense or float_dense(tensors))
    ids = g.input("ids", "int64", TOKEN_DIMS)
    present = g.input("mask", "bool", TOKEN_DIMS) if wanted.has_mask else ""
    segments = g.input("segments", "int64", TOKEN_DIMS) if shape.stack.segments > 1 else ""
    first = wanted.only_logits and _reads_first_token_only(shape)
    encoder = _add_stack(
        parts, shape, "stack", ids, segments, AttentionNodes(queries="", keys="", present=present), first=first
    )
    if wanted.hidden:
        _output_layers(g, "hidden", encoder, TOKEN_DIMS, shape.stack.width)
    if wanted.last:
        g.output("last", encoder.last, (*TOKEN_DIMS, shape.stack.width))
    top, top_present, rows = encoder, present, TOKEN_DIMS
    if shape.decoder is not None:
        if not wanted.target:
            return g
        targets = g.input("target_ids", "int64", TARGET_DIMS)
        top_present = g.input("target_mask", "bool", TARGET_DIMS) if wanted.has_mask else ""
        memory = tuple(project_memory(parts, shape.decoder, encoder.last, "decoder."))
        seen = AttentionNodes(
            queries="",
            keys="",
            present=top_present,
            memory=memory,
            memory_bias=_memory_bias(g, present) if present else "",
        )
        top, rows = _add_stack(parts, shape, "decoder", targets, "", seen), TARGET_DIMS
        if wanted.hidden:
            _output_layers(g, "target_hidden", top, rows, shape.decoder.width)
        if wanted.top:
            g.output("top", top.last, (*rows, shape.decoder.width))
    _add_heads(parts, shape, wanted, top, top_present, rows)
    return g


def _add_heads(
    parts: GraphBuilder, shape: ModelShape, wanted: GraphSpec, top: StackOutput, present: str, rows: tuple[str, str]
) -> None:
    """The pooler and the heads on the last hidden state."""
    pooled = ""
    needs = wanted.logits and any(
        one is not None and one.pooling == "pooled" for one in (shape.head, shape.second_head)
    )
    if shape.pooler is not None and (wanted.pooled or needs):
        pooled = heads.add_pooler(parts, shape.pooler, top.last)
        if wanted.pooled:
            parts.g.output("pooled", pooled, ("batch", shape.stack.width))
    if not wanted.logits:
        return
    for name, result, one in (("head", "logits", shape.head), ("second", "next_sentence", shape.second_head)):
        if one is None:
            continue
        made = heads.add_head(parts, one, top.last, pooled, present, name, _word_table(shape))
        sides = (*rows, one.outputs) if one.pooling == "each" else ("batch", one.outputs)
        parts.g.output(result, made, rows if one.kind == "replaced" else sides)


def assemble_encoder(shape: ModelShape, tensors: Tensors, *, dense: Dense | None = None) -> Graph:
    """The encoder of a pair: its words as keys and values of every layer of the decoder, computed once."""
    assert shape.decoder is not None
    g = Graph()
    parts = GraphBuilder(g=g, tensors=tensors, dense=dense or float_dense(tensors))
    ids, present = g.input("ids", "int64", TOKEN_DIMS), g.input("mask", "bool", TOKEN_DIMS)
    encoder = _add_stack(parts, shape, "stack", ids, "", AttentionNodes(queries="", keys="", present=present))
    sides = ("batch", shape.decoder.heads, "length", shape.decoder.head_width)
    for layer, pair in enumerate(project_memory(parts, shape.decoder, encoder.last, "decoder.")):
        for name, one in zip(("key", "value"), pair, strict=True):
            g.output(f"memory_{name}.{layer}", one, sides)
    g.output("memory_bias", _memory_bias(g, present), ("batch", 1, 1, "length"))
    return g


def assemble_step(shape: ModelShape, tensors: Tensors, *, dense: Dense | None = None) -> Graph:
    """New words of a decoder: the cache of keys and values goes in, and comes out longer."""
    g, top = Graph(), shape.top
    parts = GraphBuilder(g=g, tensors=tensors, dense=dense or float_dense(tensors))
    ids = g.input("ids", "int64", ("batch", "new"))
    queries = g.input("places", "int64", ("batch", "new"))
    keys = g.input("key_places", "int64", ("batch", "keys"))
    present = g.input("present", "bool", ("batch", "keys"))
    cache = ("batch", top.heads, "past", top.head_width)
    past = tuple(
        (g.input(f"past_key.{layer}", "float32", cache), g.input(f"past_value.{layer}", "float32", cache))
        for layer in range(top.layers)
    )
    memory: tuple[tuple[str, str], ...] = ()
    bias, part = "", "stack" if shape.decoder is None else "decoder"
    if shape.decoder is not None:
        sides = ("batch", top.heads, "length", top.head_width)
        memory = tuple(
            (g.input(f"memory_key.{layer}", "float32", sides), g.input(f"memory_value.{layer}", "float32", sides))
            for layer in range(top.layers)
        )
        bias = g.input("memory_bias", "float32", ("batch", 1, 1, "length"))
    seen = AttentionNodes(queries=queries, keys=keys, present=present, past=past, memory=memory, memory_bias=bias)
    made = _add_stack(parts, shape, part, ids, "", seen)
    for layer, pair in enumerate(made.kept):
        for name, one in zip(("key", "value"), pair, strict=True):
            g.output(f"kept_{name}.{layer}", one, ("batch", top.heads, "keys", top.head_width))
    if shape.head is not None:
        first = g.input("first", "int64", (1,))
        asked = g.add("Slice", made.last, first, g.constant([1 << 31]), g.constant([1]))
        logits = heads.add_head(parts, shape.head, asked, "", "", "head", _word_table(shape))
        g.output("logits", logits, ("batch", "asked", shape.head.outputs))
    return g


def supports_in_place_step(shape: ModelShape) -> bool:
    """Whether a decoder can be fed one word a row with its caches in place: positions that turn or reach are not."""
    top = shape.top
    return top.causal and top.relative in ("none", "buckets") and not any(top.local_layers)


def assemble_in_place_step(shape: ModelShape, tensors: Tensors, *, dense: Dense | None = None) -> Graph:
    """One new word for each row of a decoder, all of the same number: caches are written in place."""
    g, top = Graph(), shape.top
    parts = GraphBuilder(g=g, tensors=tensors, dense=dense or float_dense(tensors))
    ids, at = g.input("ids", "int64", ("batch", 1)), g.input("places", "int64", ("batch", 1))
    shared = (
        g.input("length", "int32", (1,)),
        g.input("group", "int32", (1,)),
        g.input("holders", "int32", ("groups", "each", "room")),
    )
    sides = ("batch", top.heads, "room", top.head_width)
    past = tuple(
        (g.input(f"past_key.{layer}", "float32", sides), g.input(f"past_value.{layer}", "float32", sides))
        for layer in range(top.layers)
    )
    part = "stack" if shape.decoder is None else "decoder"
    memory: tuple[tuple[str, str], ...] = ()
    bias, wide = "", ""
    if top.relative == "buckets":  # every row is at the same place
        keys = g.input("key_places", "int64", (1, "keys"))
        first = g.add("Slice", at, g.constant([0]), g.constant([1]), g.constant([0]))
        wide = positions.bucket_bias(parts, top, first, keys, f"{part}.")
    if shape.decoder is not None:
        sides = ("groups", top.heads, "source", top.head_width)
        memory = tuple(
            (g.input(f"memory_key.{layer}", "float32", sides), g.input(f"memory_value.{layer}", "float32", sides))
            for layer in range(top.layers)
        )
        one, given = g.constant([1]), g.input("memory_bias", "float32", ("groups", 1, 1, "source"))
        each = g.add("Cast", shared[1], to=7)
        bias = g.add("Expand", given, g.add("Concat", one, one, each, one, axis=0))
    seen = AttentionNodes(queries=at, keys=at, past=past, shared=shared, wide=wide, memory=memory, memory_bias=bias)
    made = _add_stack(parts, shape, part, ids, "", seen)
    for layer, pair in enumerate(made.kept):
        for name, one in zip(("key", "value"), pair, strict=True):
            g.output(f"kept_{name}.{layer}", one, ("batch", top.heads, "room", top.head_width))
    assert shape.head is not None
    logits = heads.add_head(parts, shape.head, made.last, "", "", "head", _word_table(shape))
    g.output("logits", logits, ("batch", 1, shape.head.outputs))
    return g


def assemble_log_probs() -> Graph:
    """log softmax over a vocabulary."""
    g = Graph()
    sides = ("batch", "new", "vocabulary")
    g.output("log_probs", g.add("LogSoftmax", g.input("logits", "float32", sides), axis=-1), sides)
    return g


def _add_stack(
    parts: GraphBuilder,
    shape: ModelShape,
    part: str,
    ids: str,
    segments: str,
    seen: AttentionNodes,
    *,
    first: bool = False,
) -> StackOutput:
    """One of the two stacks; places are counted from 0 where they are not given."""
    own = shape.stack if part == "stack" else shape.decoder
    assert own is not None
    words = tied_tensors(shape).get(f"{part}.embed.token.weight", f"{part}.embed.token.weight")
    if not seen.queries:
        at = positions.count_positions(parts.g, ids)
        seen = AttentionNodes(**{**vars(seen), "queries": at, "keys": at})
    return add_stack(parts, own, ids, segments, seen, f"{part}.", words, first=first)


def _memory_bias(g: Graph, present: str) -> str:
    """The encoder's padding, for every query alike: (batch, 1, 1, length)."""
    row = g.add("Unsqueeze", present, g.constant([1, 2]))
    return g.add("Where", row, g.scalar(0.0), g.scalar(LOW))


def _word_table(shape: ModelShape) -> str:
    """The word table that a tied head ends in."""
    return tied_tensors(shape).get("head.out.weight", "stack.embed.token.weight")


def _reads_first_token_only(shape: ModelShape) -> bool:
    """Whether every head reads the first token alone, so that the last layer need not work out the others."""
    tops = [one for one in (shape.head, shape.second_head) if one is not None]
    own = shape.stack
    alone = all(one.pooling in ("first", "pooled") for one in tops) and bool(tops)
    plain = own.relative != "disentangled" and not own.causal and not own.conv_kernel
    return alone and plain and shape.decoder is None and own.layers > 1


def _output_layers(g: Graph, name: str, made: StackOutput, rows: tuple[str, str], width: int) -> None:
    for layer, value in enumerate(made.hidden):
        side = width
        g.output(f"{name}.{layer}", value, (*rows, side))
