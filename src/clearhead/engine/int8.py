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
from clearhead.engine.parts import Dense, float_dense

Array = np.ndarray[Any, Any]
PAIR = 128  # 255 * (|a| + |b|) stays within sixteen bits for two weights a and b
MOST = 127


@dataclass(frozen=True, kw_only=True)
class Int8Plan:
    """How each dense step is computed: those that lose too much stay in float, and inputs may be evened out."""

    float_steps: frozenset[str] = frozenset()  # names of dense steps
    even: Mapping[str, Array] = field(default_factory=dict)  # divides the input of a step, channel by channel


def in_blocks(name: str) -> bool:
    """Whether a dense step is one of a block's: heads and projections are small, and stay in float."""
    return ".blocks." in name


def quantised(weight: Array) -> tuple[Array, Array]:
    """(inputs, outputs) as int8, and the scale of each output: weight = whole * scale."""
    largest = np.abs(weight).max(0)
    even = weight[: len(weight) // 2 * 2].reshape(-1, 2, weight.shape[1])
    pairs = np.maximum(np.maximum(even, 0).sum(1).max(0, initial=0), np.maximum(-even, 0).sum(1).max(0, initial=0))
    limit = np.maximum(largest / MOST, pairs / (PAIR - 1))  # one less: rounding may add it
    scale = np.maximum(limit, np.finfo(np.float32).tiny)
    return np.clip(np.rint(weight / scale), -MOST, MOST).astype(np.int8), scale.astype(np.float32)


def int8_dense(tensors: Mapping[str, Array], plan: Int8Plan) -> Dense:
    """x W^T in eight bits, several matrices that read the same x in one product."""
    exact = float_dense(tensors)
    made_before: dict[str, tuple[Array, Array]] = {}  # several graphs share the same bytes

    def product(g: Graph, x: str, *names: str) -> tuple[str, ...]:
        if not in_blocks(names[0]) or any(name in plan.float_steps for name in names):
            return exact(g, x, *names)
        joined = "+".join(names)
        weights = [tensors[f"{name}.weight"] for name in names]
        factors = plan.even[names[0]].astype(np.float32) if names[0] in plan.even else None
        if factors is not None:
            x = g.add("Mul", x, g.weight(f"{joined}.even", 1 / factors))
        if joined not in made_before:
            whole = np.concatenate(weights).T  # (inputs, outputs)
            made_before[joined] = quantised(whole if factors is None else whole * factors[:, None])
        bytes_, scale = made_before[joined]
        made = g.add(
            "DynamicQuantizeMatMul", x, g.weight(f"{joined}.int8", bytes_), g.weight(f"{joined}.scale", scale)
        )  # fmt: skip
        if len(names) == 1:
            return (made,)
        sizes = g.constant([len(weight) for weight in weights])
        return g.several("Split", made, sizes, outputs=len(names), axis=-1)

    return product
