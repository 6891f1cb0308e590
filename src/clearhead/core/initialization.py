"""Fresh weights, as each family's paper draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from clearhead.shape import ModelShape, Shape

Initializer = Callable[[str, Tensor, Shape], None]


def init_normal(name: str, weight: Tensor, shape: Shape) -> None:
    """BERT: every matrix from a narrow normal distribution."""
    nn.init.normal_(weight, 0.0, shape.init_std)


def init_gpt2(name: str, weight: Tensor, shape: Shape) -> None:
    """GPT-2: the same, with what is added to the residual stream made smaller for each layer that adds to it."""
    adds = name.endswith(("inner.out.weight", "inner.down.weight"))
    nn.init.normal_(weight, 0.0, shape.init_std / math.sqrt(2 * shape.layers) if adds else shape.init_std)


def init_truncated_normal(name: str, weight: Tensor, shape: Shape) -> None:
    """ModernBERT: normal, cut at two deviations; smaller where it is added to the residual stream."""
    adds = name.endswith(("inner.out.weight", "inner.down.weight", "head.dense.weight"))
    std = shape.init_std / math.sqrt(2 * shape.layers) if adds else shape.init_std
    if name == "head.out.weight" and weight.shape[0] != shape.vocab_size:
        std = shape.width**-0.5
    nn.init.normal_(weight, 0.0, std)
    while (beyond := weight.abs() > 2 * std).any():  # drawn again: the same distribution as by inversion, in a tenth
        weight[beyond] = torch.randn(int(beyond.sum())) * std


def init_t5(name: str, weight: Tensor, shape: Shape) -> None:
    """T5: by the width that comes in, the score scale folded into W_Q; word vectors from a unit normal."""
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
    """2017: uniform by fan-in and fan-out; word vectors normal, to be multiplied by sqrt(width)."""
    if name.endswith(("token.weight", "head.out.weight")):
        nn.init.normal_(weight, 0.0, shape.width**-0.5)
    else:
        nn.init.xavier_uniform_(weight)


def init_recurrent(name: str, weight: Tensor, shape: Shape) -> None:
    """Recurrent cells: a rotation for each gate's step in time, so that a long text neither fades nor explodes."""
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
    """Fill the named parameters: biases zero, norms one, matrices as the family's paper says."""
    for name, weight in parameters:
        if name.endswith("bias") or ".bias_" in name:
            nn.init.zeros_(weight)
            if ".bias_ih_" in name and shape.stack.recurrent is not None and shape.stack.recurrent.cell == "lstm":
                nn.init.ones_(weight.chunk(4)[1])  # the forget gate begins open: a cell that remembers can be taught
        elif weight.ndim == 1:
            nn.init.ones_(weight)
        else:
            part = shape.decoder if name.startswith("decoder.") and shape.decoder else shape.stack
            INITIALIZERS[part.init](name, weight, part)
