"""Where a word stands, as operators: what is added to the words, and what acts on queries, keys or scores.

Tables that depend on a distance alone are worked out here, once, so that the graph only looks them up.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clearhead.engine.graph import Graph
from clearhead.engine.layers import GraphBuilder
from clearhead.shape import Shape

Array = np.ndarray[Any, Any]


def count_positions(g: Graph, ids: str) -> str:
    """0, 1, 2, ... for the tokens of (batch, length) ids: (1, length)."""
    length = g.add("Squeeze", g.dim(ids, 1))
    return g.add("Unsqueeze", g.add("Range", g.constant(0), length, g.constant(1)), g.constant([0]))


def add_positions(parts: GraphBuilder, shape: Shape, x: str, ids: str, at: str, prefix: str) -> str:
    """The words x with what tells their places: a learned vector, waves, or nothing."""
    g = parts.g
    if shape.positions == "none":
        return x
    if shape.positions == "learned":
        if shape.position_offset:
            at = _count_from_padding(g, ids, shape.position_offset - 1)
        return g.add("Add", x, g.add("Gather", parts.weight(f"{prefix}positions.table.weight"), at, axis=0))
    return g.add("Add", x, _sinusoids(g, at, shape.width, halves=shape.positions == "sinusoidal_halves"))


def _count_from_padding(g: Graph, ids: str, pad: int) -> str:
    """RoBERTa's numbering: padding does not count, and the first word's number is pad + 1."""
    real = g.add("Cast", g.add("Not", g.add("Equal", ids, g.constant(pad))), to=7)
    count = g.add("CumSum", real, g.constant(1))
    return g.add("Add", g.add("Mul", count, real), g.constant(pad))


def _sinusoids(g: Graph, at: str, width: int, *, halves: bool) -> str:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(the same), in doubles as the tables were made."""
    even = np.arange(0, width, 2, dtype=np.float64)
    slow, turn = 10000.0 ** (even / width), np.zeros(len(even))
    if halves:
        pattern = np.concatenate([slow, slow[: width // 2]])
        turn = np.concatenate([turn, np.full(width // 2, math.pi / 2)])  # cos(x) = sin(x + pi / 2)
    else:
        pattern = np.repeat(slow, 2)[:width]
        turn = np.tile([0.0, math.pi / 2], len(even))[:width]
    place = g.add("Cast", g.add("Unsqueeze", at, g.constant([-1])), to=11)
    angles = g.add("Div", place, g.constant(pattern, "float64"))
    return g.add("Cast", g.add("Sin", g.add("Add", angles, g.constant(turn, "float64"))), to=1)


def rotary_tables(g: Graph, shape: Shape, at: str, *, local: bool) -> tuple[str, str]:
    """Cosine and sine of each place and each pair of numbers: (length, head_width / 2)."""
    base = shape.local_rope_theta if local else shape.rope_theta
    even = np.arange(0, shape.head_width, 2, dtype=np.float32)
    turns = np.float32(1.0) / np.float32(base) ** (even / np.float32(shape.head_width))
    place = g.add("Cast", g.add("Reshape", at, g.constant([-1, 1])), to=1)
    angle = g.add("Mul", place, g.constant(turns, "float32"))
    return g.add("Cos", angle), g.add("Sin", angle)


def look_up_distances(g: Graph, table: Array, reach: int, gaps: str) -> str:
    """The row of each distance out of a table for -reach to reach; those beyond have the last row's."""
    low, high = g.constant(-reach), g.constant(reach)
    index = g.add("Add", g.add("Clip", gaps, low, high), high)
    return g.add("Gather", g.constant(table, table.dtype.name), index, axis=0)


def bucket_bias(parts: GraphBuilder, shape: Shape, queries: str, keys: str, prefix: str) -> str:
    """T5's and MPNet's bias: a number for each bucket of distances and each head, (1|batch, heads, q, k)."""
    g = parts.g
    reach = max(shape.bucket_max_distance, shape.buckets) + 1
    table = np.ascontiguousarray(parts.tensors[f"{prefix}relative.table.weight"][distance_buckets(shape, reach)])
    gaps = g.add("Sub", g.add("Unsqueeze", keys, g.constant([1])), g.add("Unsqueeze", queries, g.constant([2])))
    return g.add("Transpose", look_up_distances(g, table, reach, gaps), perm=[0, 3, 1, 2])


def distance_buckets(shape: Shape, reach: int) -> Array:
    """The bucket of each distance from -reach to reach, keys to the right positive."""
    gap = np.arange(-reach, reach + 1)
    count, base = shape.buckets, np.zeros_like(gap)
    if shape.causal:
        distance = np.maximum(-gap, 0)
    else:
        count //= 2
        base = (gap > 0) * count
        distance = np.abs(gap)
    exact = count // 2
    ratio = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact), dtype=np.float32)
    ratio = ratio / np.float32(math.log(shape.bucket_max_distance / exact))
    far = exact + (ratio * np.float32(count - exact)).astype(np.int64)
    made: Array = base + np.where(distance < exact, distance, np.minimum(far, count - 1))
    return made


def disentangled_rows(shape: Shape) -> tuple[Array, int]:
    """DeBERTa's row of its relative table for each distance (query minus key) from -reach to reach, and the reach."""
    span = shape.relative_span
    reach = 2 * max(shape.relative_max_distance, span) + 2 if shape.log_buckets else span
    gap = np.arange(-reach, reach + 1)
    if shape.log_buckets:
        middle = span // 2
        distance = np.maximum(np.abs(gap), middle)  # nearer ones keep their own row
        scale = np.log(np.float32((shape.relative_max_distance - 1) / middle), dtype=np.float32)
        steps = np.log((distance / np.float32(middle)).astype(np.float32), dtype=np.float32) / scale
        far = np.ceil(steps * np.float32(middle - 1)) + middle
        gap = np.where(np.abs(gap) <= middle, gap, (far * np.sign(gap)).astype(np.int64))
    return np.clip(gap + span, 0, 2 * span - 1), reach
