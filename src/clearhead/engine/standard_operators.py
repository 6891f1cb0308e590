"""Expansions of ONNX Runtime's fused operators into standard operators, for other runtimes.

Each uses the pattern that common exporters write, so that optimizers can recognize and fuse it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearhead.engine.graph import Graph

Expansion = Callable[..., tuple[str, ...]]


def matmul(g: Graph, a: str, b: str, *, transB: int = 0) -> tuple[str, ...]:  # noqa: N803
    """a b, or a b^T."""
    return (g.add("MatMul", a, g.add("Transpose", b, perm=[1, 0]) if transB else b),)


def gelu(g: Graph, x: str) -> tuple[str, ...]:
    """0.5 x (1 + erf(x / sqrt(2)))."""
    wave = g.add("Erf", g.add("Div", x, g.scalar(math.sqrt(2))))
    return (g.add("Mul", g.add("Mul", x, g.add("Add", wave, g.scalar(1.0))), g.scalar(0.5)),)


def bias_gelu(g: Graph, x: str, bias: str) -> tuple[str, ...]:
    """gelu(x + bias)."""
    return gelu(g, g.add("Add", x, bias))


def fast_gelu(g: Graph, x: str, bias: str | None = None) -> tuple[str, ...]:
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    x = x if bias is None else g.add("Add", x, bias)
    cube = g.add("Mul", g.add("Pow", x, g.scalar(3.0)), g.scalar(0.044715))
    wave = g.add("Tanh", g.add("Mul", g.add("Add", x, cube), g.scalar(math.sqrt(2 / math.pi))))
    return (g.add("Mul", g.add("Mul", x, g.scalar(0.5)), g.add("Add", wave, g.scalar(1.0))),)


def quick_gelu(g: Graph, x: str, *, alpha: float) -> tuple[str, ...]:
    """x sigmoid(alpha x)."""
    return (g.add("Mul", x, g.add("Sigmoid", g.add("Mul", x, g.scalar(alpha)))),)


def rms_norm(g: Graph, x: str, scale: str, *, epsilon: float, **_: Any) -> tuple[str, ...]:
    """x / sqrt(mean(x^2) + eps) * scale."""
    mean = g.add("ReduceMean", g.add("Pow", x, g.scalar(2.0)), g.constant([-1]), keepdims=1)
    root = g.add("Sqrt", g.add("Add", mean, g.scalar(epsilon)))
    return (g.add("Mul", g.add("Div", x, root), scale),)


def rotary(g: Graph, x: str, _: str, cos: str, sin: str, *, num_heads: int) -> tuple[str, ...]:
    """Rotate the halves of each head of (batch, length, width) by the angles of positions 0, 1, 2, ..."""
    split = g.add("Reshape", x, g.constant([0, 0, num_heads, -1]))
    first, second = g.add_with_outputs("Split", split, outputs=2, axis=-1, num_outputs=2)
    cos, sin = (g.add("Unsqueeze", table, g.constant([1])) for table in (cos, sin))  # (length, 1, half)
    left = g.add("Sub", g.add("Mul", first, cos), g.add("Mul", second, sin))
    right = g.add("Add", g.add("Mul", second, cos), g.add("Mul", first, sin))
    return (g.add("Reshape", g.add("Concat", left, right, axis=-1), g.constant([0, 0, -1])),)


def dynamic_quantize_matmul(g: Graph, x: str, weight: str, scale: str, *bias: str) -> tuple[str, ...]:
    """Quantize x to uint8 by its range, multiply by an int8 matrix, and convert back to float; the bias is last."""
    quantized, step, zero = g.add_with_outputs("DynamicQuantizeLinear", x, outputs=3)
    product = g.add("Cast", g.add("MatMulInteger", quantized, weight, zero), to=1)
    output = g.add("Mul", product, g.add("Mul", step, scale))
    return (g.add("Add", output, bias[-1]) if bias else output,)


EXPANSIONS: dict[str, Expansion] = {
    "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "FusedMatMul": matmul,
    "Gelu": gelu,
    "BiasGelu": bias_gelu,
    "FastGelu": fast_gelu,
    "QuickGelu": quick_gelu,
    "SimplifiedLayerNormalization": rms_norm,
    "RotaryEmbedding": rotary,
}
