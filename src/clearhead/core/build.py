"""From a shape and named arrays to a network, without a second copy of the weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from clearhead import tensors
from clearhead.core.attention import Attention
from clearhead.core.elmo import ElmoNetwork
from clearhead.core.initialization import initialize
from clearhead.core.models import Network
from clearhead.core.recurrent_network import RecurrentNetwork
from clearhead.shape import ModelShape

if TYPE_CHECKING:
    import numpy as np


def build_network(
    shape: ModelShape, arrays: Iterable[tuple[str, np.ndarray[Any, Any]]] = (), *, seed: int | None = 0
) -> Network:
    """A network whose parameters are the given arrays themselves; those not given are drawn fresh."""
    with torch.device("meta"):
        network = _network_class(shape)(shape)
    given = {name: torch.from_numpy(array) for name, array in arrays}
    fresh = [name for name in tensors.expected_sizes(shape) if name not in given]
    sizes = tensors.expected_sizes(shape)
    made = {name: torch.empty(sizes[name]) for name in fresh}
    if fresh:
        with torch.random.fork_rng(devices=[]):
            if seed is not None:
                torch.manual_seed(seed)
            initialize(made.items(), shape)
    for name, tensor in (given | made).items():
        set_parameter(network, name, tensor)
    network.tie()
    return network.eval()


def _network_class(shape: ModelShape) -> type[Network]:
    """What a shape is built as."""
    if shape.stack.recurrent is None:
        return Network
    return ElmoNetwork if shape.stack.recurrent.independent_directions else RecurrentNetwork


def convert_to_float32(raw: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Bytes of another floating-point type as float32, on every core and several times as fast as numpy."""
    kind = {"BF16": torch.bfloat16, "F16": torch.float16, "F64": torch.float64}[dtype]
    return torch.from_numpy(raw).view(kind).float().numpy()


def set_parameter(network: Network, name: str, tensor: Tensor) -> None:
    """Put one parameter in its place."""
    owner, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(owner), leaf, nn.Parameter(tensor))


def named_arrays(network: Network) -> dict[str, np.ndarray[Any, Any]]:
    """Every parameter as an array, tied ones once; pruned heads come back as zeros, so that any reader has them."""
    tied = tensors.tied_tensors(network.shape)
    made = {
        name: parameter.detach().to("cpu", torch.float32)
        for name, parameter in network.named_parameters(remove_duplicate=False)
        if name not in tied
    }
    for part, prefix in (("encoder", "stack"), ("decoder", "decoder"), ("cross", "decoder")):
        inner = "cross" if part == "cross" else "attend"
        for block, attention in enumerate(network.attentions(part)):
            if len(attention.kept_heads) < attention.total_heads:
                _restore_pruned_heads(made, f"{prefix}.blocks.{block}.{inner}.inner.", attention)
    return {name: tensor.numpy() for name, tensor in made.items()}


def _restore_pruned_heads(made: dict[str, Tensor], prefix: str, attention: Attention) -> None:
    """Rows and columns of zeros where heads were: they look at everything and say nothing."""
    width = attention.head_width
    rows = torch.tensor([head * width + i for head in attention.kept_heads for i in range(width)])
    for name in [name for name in made if name.startswith(prefix)]:
        side = 1 if name.endswith("out.weight") else 0
        if name.endswith("out.bias"):
            continue
        size = list(made[name].shape)
        size[side] = attention.total_heads * width
        made[name] = torch.zeros(size).index_copy(side, rows, made[name])


def find_pruned_heads(network: Network) -> dict[str, dict[str, list[int]]]:
    """Which heads are gone: part, block, heads."""
    gone: dict[str, dict[str, list[int]]] = {}
    for part in ("encoder", "decoder", "cross"):
        for block, attention in enumerate(network.attentions(part)):
            lost = sorted(set(range(attention.total_heads)) - set(attention.kept_heads))
            if lost:
                gone.setdefault(part, {})[str(block)] = lost
    return gone
