"""Dense steps in whole numbers of eight bits: weights by output channel, activations by the text that is read.

The product of two pairs of bytes is added up in sixteen bits on most CPUs, and overflows there without a word. Weights
are therefore scaled so that no two neighbours can reach the limit together: nearly eight bits instead of seven.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clearhead.engine.graph import Graph
from clearhead.engine.layers import Dense, float_dense

Array = np.ndarray[Any, Any]
PAIR_LIMIT = 128  # 255 * (|a| + |b|) stays within sixteen bits for two weights a and b
INT8_MAX = 127


@dataclass(frozen=True, kw_only=True)
class Int8Plan:
    """How each dense step is computed: inputs may be evened out, a few channels or the whole step may stay in float."""

    float_steps: frozenset[str] = frozenset()  # names of dense steps
    smoothing: Mapping[str, Array] = field(default_factory=dict)  # divides the input of a step, channel by channel
    outlier_channels: Mapping[str, Array] = field(
        default_factory=dict
    )  # channels of a step that are multiplied in float


def is_in_block(name: str) -> bool:
    """Whether a dense step is one of a block's: heads and projections are small, and stay in float."""
    return ".blocks." in name


def quantize_weight(weight: Array) -> tuple[Array, Array]:
    """(inputs, outputs) as int8, and the scale of each output: weight = whole * scale."""
    largest = np.abs(weight).max(0)
    even = weight[: len(weight) // 2 * 2].reshape(-1, 2, weight.shape[1])
    pairs = np.maximum(np.maximum(even, 0).sum(1).max(0, initial=0), np.maximum(-even, 0).sum(1).max(0, initial=0))
    limit = np.maximum(largest / INT8_MAX, pairs / (PAIR_LIMIT - 1))  # one less: rounding may add it
    scale = np.maximum(limit, np.finfo(np.float32).tiny)
    return np.clip(np.rint(weight / scale), -INT8_MAX, INT8_MAX).astype(np.int8), scale.astype(np.float32)


@dataclass(frozen=True)
class QuantizedDense:
    """A dense step that is ready: bytes (inputs, outputs), their scales, and what each channel is multiplied by."""

    whole: Array
    scale: Array
    factors: Array | None  # None: nothing to multiply
    outlier_weight: Array | None  # rows of the matrix that stay in float


def quantize_dense(weight: Array, even: Array | None = None, aside: Array | None = None) -> QuantizedDense:
    """A matrix (inputs, outputs) in eight bits: evened out, and without the channels that are left aside."""
    factors = np.ones(len(weight), np.float32) if even is None else even.astype(np.float32)
    rounded, times = weight * factors[:, None], 1 / factors
    if aside is not None:
        rounded[aside] = times[aside] = 0.0
    plain = even is None and aside is None
    return QuantizedDense(*quantize_weight(rounded), None if plain else times, None if aside is None else weight[aside])


def int8_dense_per_token(tensors: Mapping[str, Array], plan: Int8Plan) -> Dense:
    """x W^T in eight bits with a scale for each token, so that no neighbour changes an answer, however many there are.

    Each token is divided by its largest number, which leaves -1 to 1, rounded to 127 steps on either side, multiplied,
    and made as large as it was. Heads are computed so, too: of a small translator they are the largest part.
    """
    exact = float_dense(tensors)
    ready: dict[str, QuantizedDense] = {}

    def product(g: Graph, x: str, *names: str, bias: str = "") -> tuple[str, ...]:
        if any(name in plan.float_steps for name in names):
            return exact(g, x, *names, bias=bias)
        joined, sizes = "+".join(names), [len(tensors[f"{name}.weight"]) for name in names]
        if joined not in ready:
            ready[joined] = quantize_dense(np.concatenate([tensors[f"{name}.weight"] for name in names]).T)
        one, unit = ready[joined], g.scalar(1 / INT8_MAX)
        peak = g.add("ReduceMax", g.add("Abs", x), g.constant([-1]), keepdims=1)
        peak = g.add("Max", peak, g.scalar(float(np.finfo(np.float32).tiny)))
        whole = g.add("QuantizeLinear", g.add("Div", x, peak), unit, g.constant(128, "uint8"))
        given = [g.weight(f"{joined}.int8", one.whole), unit, g.weight(f"{joined}.scale", one.scale)]
        made = g.add("MatMulIntegerToFloat", whole, *given, g.constant(128, "uint8"))
        total = g.add("Mul", made, peak)
        total = g.add("Add", total, bias) if bias else total
        if len(names) == 1:
            return (total,)
        return g.add_with_outputs("Split", total, g.constant(sizes), outputs=len(names), axis=-1)

    return product


def int8_dense(
    tensors: Mapping[str, Array], plan: Int8Plan, made: dict[tuple[str, bytes], QuantizedDense] | None = None
) -> Dense:
    """x W^T in eight bits, several matrices that read the same x in one product; `made` is shared between graphs."""
    exact = float_dense(tensors)
    ready = {} if made is None else made

    def product(g: Graph, x: str, *names: str, bias: str = "") -> tuple[str, ...]:
        if not is_in_block(names[0]) or any(name in plan.float_steps for name in names):
            return exact(g, x, *names, bias=bias)
        joined, sizes = "+".join(names), [len(tensors[f"{name}.weight"]) for name in names]
        aside = plan.outlier_channels.get(names[0])
        key = joined, b"" if aside is None else aside.tobytes()
        if key not in ready:
            whole = np.concatenate([tensors[f"{name}.weight"] for name in names]).T
            ready[key] = quantize_dense(whole, plan.smoothing.get(names[0]), aside)
        one = ready[key]
        rounded = x if one.factors is None else g.add("Mul", x, g.weight(f"{joined}.even", one.factors))
        given = [rounded, g.weight(f"{joined}.int8", one.whole), g.weight(f"{joined}.scale", one.scale)]
        total = g.add("DynamicQuantizeMatMul", *given, *(["", bias] if bias else []))
        if aside is not None and one.outlier_weight is not None:
            apart = g.add("Gather", x, g.constant(aside), axis=-1)
            total = g.add("Add", total, g.add("FusedMatMul", apart, g.weight(f"{joined}.aside", one.outlier_weight)))
        if len(names) == 1:
            return (total,)
        return g.add_with_outputs("Split", total, g.constant(sizes), outputs=len(names), axis=-1)

    return product
