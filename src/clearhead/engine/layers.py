"""Building blocks as ONNX operators: dense layers, norms, activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from clearhead.engine.graph import Graph
from clearhead.shape import Shape

Array = np.ndarray[Any, Any]


class Dense(Protocol):
    """Adds x W^T for dense layers with the same input and returns one node per layer; a single layer may add a bias."""

    def __call__(self, g: Graph, x: str, *names: str, bias: str = "") -> tuple[str, ...]: ...


@dataclass(frozen=True, kw_only=True)
class GraphBuilder:
    """A graph under construction, its source tensors, and the implementation of dense layers."""

    g: Graph
    tensors: Mapping[str, Array]
    dense: Dense

    def has(self, name: str) -> bool:
        """Whether the model has this tensor."""
        return name in self.tensors

    def weight(self, name: str) -> str:
        """Add a tensor as a weight of the graph."""
        return self.g.weight(name, self.tensors[name])

    def product(self, x: str, *names: str) -> tuple[str, ...]:
        """Add x W^T for each dense layer, without bias."""
        return self.dense(self.g, x, *names)

    def bias(self, *names: str) -> str:
        """Add the concatenated biases of dense layers; return an empty name if they have none."""
        if not self.has(f"{names[0]}.bias"):
            return ""
        if len(names) == 1:
            return self.weight(f"{names[0]}.bias")
        concatenated = np.concatenate([self.tensors[f"{name}.bias"] for name in names])
        return self.g.weight("+".join(names) + ".bias", concatenated)

    def linear(self, x: str, name: str) -> str:
        """Add x W^T + b."""
        return self.dense(self.g, x, name, bias=self.bias(name))[0]

    def norm(self, x: str, name: str, shape: Shape) -> str:
        """Add a layer norm or an RMS norm."""
        return add_norm(self, x, name, kind=shape.norm, eps=shape.eps)


def add_norm(builder: GraphBuilder, x: str, name: str, *, eps: float, kind: str = "layer") -> str:
    """Add a norm over the features of each token.

    ONNX Runtime has a fused operator for addition and norm, but on a CPU it is scalar and slower than the two
    operators.
    """
    inputs = [x, builder.weight(f"{name}.weight")]
    if kind == "rms":
        return builder.g.add("SimplifiedLayerNormalization", *inputs, axis=-1, epsilon=eps)
    if builder.has(f"{name}.bias"):
        inputs.append(builder.weight(f"{name}.bias"))
    return builder.g.add("LayerNormalization", *inputs, axis=-1, epsilon=eps)


def activate(g: Graph, name: str, x: str, bias: str = "") -> str:
    """Add an activation by its name in config files, after an optional bias."""
    if bias and name in FUSED_WITH_BIAS:
        return g.add(FUSED_WITH_BIAS[name], x, bias)
    return ACTIVATIONS[name](g, g.add("Add", x, bias) if bias else x)


FUSED_WITH_BIAS = {"gelu": "BiasGelu", "gelu_python": "BiasGelu"} | dict.fromkeys(
    ("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh"), "FastGelu"
)


def _clip(g: Graph, x: str, low: float, high: float) -> str:
    return g.add("Clip", x, g.scalar(low), g.scalar(high))


def _mish(g: Graph, x: str) -> str:
    return g.add("Mul", x, g.add("Tanh", g.add("Softplus", x)))


def _squared_relu(g: Graph, x: str) -> str:
    rectified = g.add("Relu", x)
    return g.add("Mul", rectified, rectified)


def _laplace(g: Graph, x: str) -> str:
    mu, sigma = 0.707107, 0.282095
    scaled = g.add("Mul", g.add("Sub", x, g.scalar(mu)), g.scalar(1 / (sigma * math.sqrt(2.0))))
    return g.add("Mul", g.add("Add", g.add("Erf", scaled), g.scalar(1.0)), g.scalar(0.5))


def _operator(op: str, **attributes: Any) -> Callable[[Graph, str], str]:
    return lambda g, x: g.add(op, x, **attributes)


ACTIVATIONS: dict[str, Callable[[Graph, str], str]] = {
    "gelu": _operator("Gelu"),
    "gelu_10": lambda g, x: _clip(g, g.add("Gelu", x), -10.0, 10.0),
    "gelu_python": _operator("Gelu"),
    "gelu_new": _operator("FastGelu"),
    "gelu_fast": _operator("FastGelu"),
    "gelu_accurate": _operator("FastGelu"),
    "gelu_pytorch_tanh": _operator("FastGelu"),
    "quick_gelu": _operator("QuickGelu", alpha=1.702),
    "leaky_relu": _operator("LeakyRelu", alpha=0.01),
    "linear": lambda _, x: x,
    "mish": _mish,
    "relu": _operator("Relu"),
    "relu2": _squared_relu,
    "relu6": lambda g, x: _clip(g, x, 0.0, 6.0),
    "sigmoid": _operator("Sigmoid"),
    "silu": _operator("QuickGelu", alpha=1.0),
    "swish": _operator("QuickGelu", alpha=1.0),
    "tanh": _operator("Tanh"),
    "laplace": _laplace,
    "elu": _operator("Elu", alpha=1.0),
}


def float_dense(tensors: Mapping[str, Array]) -> Dense:
    """Float x W^T; matrices are used in the layout of the checkpoint."""

    def add_products(g: Graph, x: str, *names: str, bias: str = "") -> tuple[str, ...]:
        weights = (g.weight(f"{name}.weight", tensors[f"{name}.weight"]) for name in names)
        outputs = tuple(g.add("FusedMatMul", x, weight, transB=1) for weight in weights)
        return (g.add("Add", outputs[0], bias),) if bias else outputs

    return add_products
