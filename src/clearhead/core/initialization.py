"""Initialization of new weights as in the paper of each family."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from clearhead.shape import ModelShape, Shape

Initializer = Callable[[str, Tensor, Shape], None]


def init_normal(name: str, weight: Tensor, shape: Shape) -> None:
    """BERT: a narrow normal distribution for every matrix."""
    nn.init.normal_(weight, 0.0, shape.init_std)


def init_gpt2(name: str, weight: Tensor, shape: Shape) -> None:
    """GPT-2: as BERT, with output projections scaled by 1 / sqrt(number of residual additions)."""
    is_residual = name.endswith(("inner.out.weight", "inner.down.weight"))
    nn.init.normal_(weight, 0.0, shape.init_std / math.sqrt(2 * shape.layers) if is_residual else shape.init_std)


def init_truncated_normal(name: str, weight: Tensor, shape: Shape) -> None:
    """ModernBERT: a normal distribution truncated at two standard deviations, with scaled output projections."""
    is_residual = name.endswith(("inner.out.weight", "inner.down.weight", "head.dense.weight"))
    std = shape.init_std / math.sqrt(2 * shape.layers) if is_residual else shape.init_std
    if name == "head.out.weight" and weight.shape[0] != shape.vocab_size:
        std = shape.width**-0.5
    nn.init.normal_(weight, 0.0, std)
    while (
        is_outside := weight.abs() > 2 * std
    ).any():  # redrawn: the same distribution as by inversion, in a tenth of the time
        weight[is_outside] = torch.randn(int(is_outside.sum())) * std


def init_t5(name: str, weight: Tensor, shape: Shape) -> None:
    """T5: scaled by fan-in, with 1 / sqrt(d) folded into W_Q; embeddings from a standard normal distribution."""
    inner = shape.heads * shape.head_width
    std = shape.width**-0.5
    if name.endswith(("embed.token.weight", "head.out.weight")):
        std = 1.0
    elif name.endswith("inner.q.weight"):
        std = (shape.width * shape.head_width) ** -0.5
    elif name.endswith("inner.out.weight"):
        std = inner**-0.5
    elif name.endswith("inner.down.weight"):
        std = shape.feed_forward_width**-0.5
    nn.init.normal_(weight, 0.0, shape.init_std * std)


def init_xavier(name: str, weight: Tensor, shape: Shape) -> None:
    """The original Transformer: Xavier uniform; normal embeddings, which are later multiplied by sqrt(width)."""
    if name.endswith(("token.weight", "head.out.weight")):
        nn.init.normal_(weight, 0.0, shape.width**-0.5)
    else:
        nn.init.xavier_uniform_(weight)


def init_recurrent(name: str, weight: Tensor, shape: Shape) -> None:
    """Recurrent networks: orthogonal recurrent matrices, so that gradients of long texts neither vanish nor explode."""
    if name.endswith(("token.weight", "head.out.weight")):
        nn.init.normal_(weight, 0.0, shape.token_width**-0.5)
    elif ".weight_hh_" in name:
        for gate in weight.split(weight.shape[1]):
            nn.init.orthogonal_(gate)
    elif ".weight_ih_" in name:
        gates = 4 if shape.recurrent is not None and shape.recurrent.cell == "lstm" else 3
        for gate in weight.split(weight.shape[0] // gates):
            nn.init.xavier_uniform_(gate)
    else:
        nn.init.xavier_uniform_(weight)


INITIALIZERS: dict[str, Initializer] = {
    "normal": init_normal,
    "gpt2": init_gpt2,
    "truncated": init_truncated_normal,
    "t5": init_t5,
    "xavier": init_xavier,
    "recurrent": init_recurrent,
}


@torch.no_grad()
def initialize(parameters: Iterable[tuple[str, Tensor]], shape: ModelShape) -> None:
    """Fill the named parameters in place: biases with 0, norms with 1, matrices as in the paper of the family."""
    for name, weight in parameters:
        if name.endswith("bias") or ".bias_" in name:
            nn.init.zeros_(weight)
            if ".bias_ih_" in name and shape.stack.recurrent is not None and shape.stack.recurrent.cell == "lstm":
                nn.init.ones_(weight.chunk(4)[1])  # an open forget gate lets gradients flow from the start
        elif weight.ndim == 1:
            nn.init.ones_(weight)
        else:
            part = shape.decoder if name.startswith("decoder.") and shape.decoder else shape.stack
            INITIALIZERS[part.init](name, weight, part)
