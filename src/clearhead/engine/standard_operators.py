"""ONNX Runtime's fused operators, written out in the standard's own, for other runtimes.

Each is written in the form that exporters write, so that optimisers know it again and fuse it as they like.
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
    """(batch, length, width): each head's halves turned by the angle of their place; places are 0, 1, 2, ..."""
    split = g.add("Reshape", x, g.constant([0, 0, num_heads, -1]))
    first, second = g.add_with_outputs("Split", split, outputs=2, axis=-1, num_outputs=2)
    cos, sin = (g.add("Unsqueeze", one, g.constant([1])) for one in (cos, sin))  # (length, 1, half)
    left = g.add("Sub", g.add("Mul", first, cos), g.add("Mul", second, sin))
    right = g.add("Add", g.add("Mul", second, cos), g.add("Mul", first, sin))
    return (g.add("Reshape", g.add("Concat", left, right, axis=-1), g.constant([0, 0, -1])),)


def dynamic_quantize_matmul(g: Graph, x: str, bytes_: str, scale: str, *more: str) -> tuple[str, ...]:
    """x in eight bits by its own least and largest number, times bytes, back in float; a bias comes last."""
    whole, step, zero = g.add_with_outputs("DynamicQuantizeLinear", x, outputs=3)
    product = g.add("Cast", g.add("MatMulInteger", whole, bytes_, zero), to=1)
    made = g.add("Mul", product, g.add("Mul", step, scale))
    return (g.add("Add", made, more[-1]) if more else made,)


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
