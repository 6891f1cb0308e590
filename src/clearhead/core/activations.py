"""Activation functions under the names used in config files."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def gelu_tanh(x: Tensor) -> Tensor:
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as in the original BERT and GPT code."""
    return F.gelu(x, approximate="tanh")


def gelu_new(x: Tensor) -> Tensor:
    """The tanh approximation in the operations of the original code, to match it to the last bit."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def gelu_fast(x: Tensor) -> Tensor:
    """The tanh approximation, factored as in a third implementation that some configs name."""
    return 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))


def quick_gelu(x: Tensor) -> Tensor:
    """x sigmoid(1.702 x)."""
    return x * torch.sigmoid(1.702 * x)


def gelu_10(x: Tensor) -> Tensor:
    """gelu, clipped to [-10, 10]."""
    return F.gelu(x).clamp(-10, 10)


def laplace(x: Tensor) -> Tensor:
    """The Laplace attention function of MEGA, with its fixed mean and standard deviation."""
    mu, sigma = 0.707107, 0.282095
    return 0.5 * (1.0 + torch.erf((x - mu) / (sigma * math.sqrt(2.0))))


def squared_relu(x: Tensor) -> Tensor:
    """max(0, x)^2."""
    return F.relu(x).square()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_10": gelu_10,
    "gelu_python": F.gelu,
    "gelu_new": gelu_new,
    "gelu_fast": gelu_fast,
    "gelu_accurate": gelu_new,
    "gelu_pytorch_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "leaky_relu": F.leaky_relu,
    "linear": lambda x: x,
    "mish": F.mish,
    "relu": F.relu,
    "relu2": squared_relu,
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
    "laplace": laplace,
    "elu": F.elu,
}
