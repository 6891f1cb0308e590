"""Position encodings as ONNX operators.

Tables that depend only on a distance are computed here, once, so that the graph only looks them up.
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


def add_positions(builder: GraphBuilder, shape: Shape, x: str, ids: str, positions: str, prefix: str) -> str:
    """Add position encodings to the embeddings x: learned vectors, sinusoids, or none."""
    g = builder.g
    if shape.positions == "none":
        return x
    if shape.positions == "learned":
        if shape.position_offset:
            positions = _count_from_padding(g, ids, shape.position_offset - 1)
        return g.add("Add", x, g.add("Gather", builder.weight(f"{prefix}positions.table.weight"), positions, axis=0))
    return g.add("Add", x, _sinusoids(g, positions, shape.width, halves=shape.positions == "sinusoidal_halves"))


def _count_from_padding(g: Graph, ids: str, pad: int) -> str:
    """RoBERTa's numbering: padding tokens have no position, and the first token has position pad_id + 1."""
    real = g.add("Cast", g.add("Not", g.add("Equal", ids, g.constant(pad))), to=7)
    count = g.add("CumSum", real, g.constant(1))
    return g.add("Add", g.add("Mul", count, real), g.constant(pad))


def _sinusoids(g: Graph, positions: str, width: int, *, halves: bool) -> str:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d)), in float64 like stored tables."""
    even_dims = np.arange(0, width, 2, dtype=np.float64)
    wavelengths, phase = 10000.0 ** (even_dims / width), np.zeros(len(even_dims))
    if halves:
        pattern = np.concatenate([wavelengths, wavelengths[: width // 2]])
        phase = np.concatenate([phase, np.full(width // 2, math.pi / 2)])  # cos(x) = sin(x + pi / 2)
    else:
        pattern = np.repeat(wavelengths, 2)[:width]
        phase = np.tile([0.0, math.pi / 2], len(even_dims))[:width]
    position = g.add("Cast", g.add("Unsqueeze", positions, g.constant([-1])), to=11)
    angles = g.add("Div", position, g.constant(pattern, "float64"))
    return g.add("Cast", g.add("Sin", g.add("Add", angles, g.constant(phase, "float64"))), to=1)


def rotary_tables(g: Graph, shape: Shape, positions: str, *, local: bool) -> tuple[str, str]:
    """Cosines and sines for each position and each pair of dimensions: (length, head_width / 2)."""
    base = shape.local_rope_theta if local else shape.rope_theta
    even_dims = np.arange(0, shape.head_width, 2, dtype=np.float32)
    frequencies = np.float32(1.0) / np.float32(base) ** (even_dims / np.float32(shape.head_width))
    position = g.add("Cast", g.add("Reshape", positions, g.constant([-1, 1])), to=1)
    angle = g.add("Mul", position, g.constant(frequencies, "float32"))
    return g.add("Cos", angle), g.add("Sin", angle)


def look_up_distances(g: Graph, table: Array, max_distance: int, distances: str) -> str:
    """Look up distances in a table for -max_distance to max_distance; larger ones use the last row."""
    low, high = g.constant(-max_distance), g.constant(max_distance)
    index = g.add("Add", g.add("Clip", distances, low, high), high)
    return g.add("Gather", g.constant(table, table.dtype.name), index, axis=0)


def bucket_bias(builder: GraphBuilder, shape: Shape, queries: str, keys: str, prefix: str) -> str:
    """T5 and MPNet: a learned bias per distance bucket and head, (1|batch, heads, q, k)."""
    g = builder.g
    max_distance = max(shape.bucket_max_distance, shape.buckets) + 1
    table = np.ascontiguousarray(
        builder.tensors[f"{prefix}relative.table.weight"][distance_buckets(shape, max_distance)]
    )
    distances = g.add("Sub", g.add("Unsqueeze", keys, g.constant([1])), g.add("Unsqueeze", queries, g.constant([2])))
    return g.add("Transpose", look_up_distances(g, table, max_distance, distances), perm=[0, 3, 1, 2])


def distance_buckets(shape: Shape, max_distance: int) -> Array:
    """Map distances from -max_distance to max_distance to buckets; keys to the right are positive."""
    distance_range = np.arange(-max_distance, max_distance + 1)
    count, base = shape.buckets, np.zeros_like(distance_range)
    if shape.causal:
        distance = np.maximum(-distance_range, 0)
    else:
        count //= 2
        base = (distance_range > 0) * count
        distance = np.abs(distance_range)
    exact = count // 2
    ratio = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact), dtype=np.float32)
    ratio = ratio / np.float32(math.log(shape.bucket_max_distance / exact))
    far = exact + (ratio * np.float32(count - exact)).astype(np.int64)
    bucket: Array = base + np.where(distance < exact, distance, np.minimum(far, count - 1))
    return bucket


def disentangled_rows(shape: Shape) -> tuple[Array, int]:
    """Rows of DeBERTa's relative table for distances (query minus key) up to `max_distance`, and `max_distance`."""
    span = shape.relative_span
    max_distance = 2 * max(shape.relative_max_distance, span) + 2 if shape.log_buckets else span
    distance_range = np.arange(-max_distance, max_distance + 1)
    if shape.log_buckets:
        middle = span // 2
        distance = np.maximum(np.abs(distance_range), middle)  # near distances have their own row
        scale = np.log(np.float32((shape.relative_max_distance - 1) / middle), dtype=np.float32)
        steps = np.log((distance / np.float32(middle)).astype(np.float32), dtype=np.float32) / scale
        far = np.ceil(steps * np.float32(middle - 1)) + middle
        distance_range = np.where(
            np.abs(distance_range) <= middle, distance_range, (far * np.sign(distance_range)).astype(np.int64)
        )
    return np.clip(distance_range + span, 0, 2 * span - 1), max_distance
