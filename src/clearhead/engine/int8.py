"""Int8 dense layers: weights are scaled per output channel, activations per call or per token.

Most CPUs add the products of two pairs of bytes in 16 bits, which can overflow silently. Weights are therefore scaled
so that no two adjacent weights can reach the limit together, which uses nearly eight bits instead of seven.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clearhead.engine.graph import Graph
from clearhead.engine.layers import Dense, float_dense

Array = np.ndarray[Any, Any]
PAIR_LIMIT = 128  # limit of |a| + |b|: 255 * (|a| + |b|) fits into 16 bits for adjacent weights a and b
INT8_MAX = 127


@dataclass(frozen=True, kw_only=True)
class Int8Plan:
    """How each dense layer is quantized: with smoothed inputs, or with outlier channels or all of it in float."""

    float_steps: frozenset[str] = frozenset()  # names of layers in float
    smoothing: Mapping[str, Array] = field(default_factory=dict)  # factors that divide the input channels of a layer
    outlier_channels: Mapping[str, Array] = field(
        default_factory=dict
    )  # input channels of a layer that are multiplied in float


def is_in_block(name: str) -> bool:
    """Whether a dense layer belongs to a block: heads and projections are small and stay in float."""
    return ".blocks." in name


def quantize_weight(weight: Array) -> tuple[Array, Array]:
    """Quantize (inputs, outputs) to int8 with a scale per output: weight = quantized * scale."""
    largest = np.abs(weight).max(0)
    adjacent = weight[: len(weight) // 2 * 2].reshape(-1, 2, weight.shape[1])
    pairs = np.maximum(
        np.maximum(adjacent, 0).sum(1).max(0, initial=0), np.maximum(-adjacent, 0).sum(1).max(0, initial=0)
    )
    limit = np.maximum(largest / INT8_MAX, pairs / (PAIR_LIMIT - 1))  # one less, because rounding may add one
    scale = np.maximum(limit, np.finfo(np.float32).tiny)
    return np.clip(np.rint(weight / scale), -INT8_MAX, INT8_MAX).astype(np.int8), scale.astype(np.float32)


@dataclass(frozen=True)
class QuantizedDense:
    """A quantized dense layer: int8 weight (inputs, outputs), output scales and input factors."""

    weight: Array
    scale: Array
    input_factors: Array | None  # None: the input is used unchanged
    outlier_weight: Array | None  # rows of the matrix that stay in float


def quantize_dense(
    weight: Array, smoothing: Array | None = None, outlier_channels: Array | None = None
) -> QuantizedDense:
    """Quantize a matrix (inputs, outputs) after smoothing, without its outlier channels."""
    factors = np.ones(len(weight), np.float32) if smoothing is None else smoothing.astype(np.float32)
    scaled, input_factors = weight * factors[:, None], 1 / factors
    if outlier_channels is not None:
        scaled[outlier_channels] = input_factors[outlier_channels] = 0.0
    is_plain = smoothing is None and outlier_channels is None
    outlier_weight = None if outlier_channels is None else weight[outlier_channels]
    return QuantizedDense(*quantize_weight(scaled), None if is_plain else input_factors, outlier_weight)


def int8_dense_per_token(tensors: Mapping[str, Array], plan: Int8Plan) -> Dense:
    """Int8 x W^T with an activation scale per token, so that a row never depends on its batch.

    Each token is divided by its largest absolute value, scaled to 127 steps on either side, multiplied, and scaled
    back. Heads are quantized, too: they are the largest part of a small translation model.
    """
    exact = float_dense(tensors)
    ready: dict[str, QuantizedDense] = {}

    def add_products(g: Graph, x: str, *names: str, bias: str = "") -> tuple[str, ...]:
        if any(name in plan.float_steps for name in names):
            return exact(g, x, *names, bias=bias)
        joined_name, sizes = "+".join(names), [len(tensors[f"{name}.weight"]) for name in names]
        if joined_name not in ready:
            ready[joined_name] = quantize_dense(np.concatenate([tensors[f"{name}.weight"] for name in names]).T)
        layer, step = ready[joined_name], g.scalar(1 / INT8_MAX)
        peak = g.add("ReduceMax", g.add("Abs", x), g.constant([-1]), keepdims=1)
        peak = g.add("Max", peak, g.scalar(float(np.finfo(np.float32).tiny)))
        quantized = g.add("QuantizeLinear", g.add("Div", x, peak), step, g.constant(128, "uint8"))
        operands = [g.weight(f"{joined_name}.int8", layer.weight), step, g.weight(f"{joined_name}.scale", layer.scale)]
        product = g.add("MatMulIntegerToFloat", quantized, *operands, g.constant(128, "uint8"))
        total = g.add("Mul", product, peak)
        total = g.add("Add", total, bias) if bias else total
        if len(names) == 1:
            return (total,)
        return g.add_with_outputs("Split", total, g.constant(sizes), outputs=len(names), axis=-1)

    return add_products


def int8_dense(
    tensors: Mapping[str, Array], plan: Int8Plan, cache: dict[tuple[str, bytes], QuantizedDense] | None = None
) -> Dense:
    """Int8 x W^T; matrices with the same input share one product, and `cache` shares them between graphs."""
    exact = float_dense(tensors)
    ready = {} if cache is None else cache

    def add_products(g: Graph, x: str, *names: str, bias: str = "") -> tuple[str, ...]:
        if not is_in_block(names[0]) or any(name in plan.float_steps for name in names):
            return exact(g, x, *names, bias=bias)
        joined_name, sizes = "+".join(names), [len(tensors[f"{name}.weight"]) for name in names]
        outlier_channels = plan.outlier_channels.get(names[0])
        key = joined_name, b"" if outlier_channels is None else outlier_channels.tobytes()
        if key not in ready:
            weight = np.concatenate([tensors[f"{name}.weight"] for name in names]).T
            ready[key] = quantize_dense(weight, plan.smoothing.get(names[0]), outlier_channels)
        layer = ready[key]
        scaled = (
            x if layer.input_factors is None else g.add("Mul", x, g.weight(f"{joined_name}.even", layer.input_factors))
        )
        operands = [
            scaled,
            g.weight(f"{joined_name}.int8", layer.weight),
            g.weight(f"{joined_name}.scale", layer.scale),
        ]
        total = g.add("DynamicQuantizeMatMul", *operands, *(["", bias] if bias else []))
        if outlier_channels is not None and layer.outlier_weight is not None:
            outliers = g.add("Gather", x, g.constant(outlier_channels), axis=-1)
            total = g.add(
                "Add", total, g.add("FusedMatMul", outliers, g.weight(f"{joined_name}.aside", layer.outlier_weight))
            )
        if len(names) == 1:
            return (total,)
        return g.add_with_outputs("Split", total, g.constant(sizes), outputs=len(names), axis=-1)

    return add_products
