"""Builds a network from a shape and named arrays, without copying the weights."""

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
    """Build a network whose parameters share memory with the arrays; missing ones are initialized from `seed`."""
    with torch.device("meta"):
        network = _network_class(shape)(shape)
    loaded = {name: torch.from_numpy(array) for name, array in arrays}
    missing = [name for name in tensors.expected_sizes(shape) if name not in loaded]
    sizes = tensors.expected_sizes(shape)
    initialized = {name: torch.empty(sizes[name]) for name in missing}
    if missing:
        with torch.random.fork_rng(devices=[]):
            if seed is not None:
                torch.manual_seed(seed)
            initialize(initialized.items(), shape)
    for name, tensor in (loaded | initialized).items():
        set_parameter(network, name, tensor)
    network.tie()
    return network.eval()


def _network_class(shape: ModelShape) -> type[Network]:
    """Select the network class of a shape."""
    if shape.stack.recurrent is None:
        return Network
    return ElmoNetwork if shape.stack.recurrent.independent_directions else RecurrentNetwork


def convert_to_float32(raw: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Convert the bytes of another floating-point type to float32, on all cores and several times as fast as numpy."""
    torch_dtype = {"BF16": torch.bfloat16, "F16": torch.float16, "F64": torch.float64}[dtype]
    return torch.from_numpy(raw).view(torch_dtype).float().numpy()


def set_parameter(network: Network, name: str, tensor: Tensor) -> None:
    """Set one parameter by its dotted name."""
    owner, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(owner), leaf, nn.Parameter(tensor))


def named_arrays(network: Network) -> dict[str, np.ndarray[Any, Any]]:
    """Return every parameter as an array, tied ones once; pruned heads are zeros, as other libraries expect."""
    tied = tensors.tied_tensors(network.shape)
    arrays = {
        name: parameter.detach().to("cpu", torch.float32)
        for name, parameter in network.named_parameters(remove_duplicate=False)
        if name not in tied
    }
    for part, prefix in (("encoder", "stack"), ("decoder", "decoder"), ("cross", "decoder")):
        module = "cross" if part == "cross" else "attend"
        for block, attention in enumerate(network.attentions(part)):
            if len(attention.kept_heads) < attention.total_heads:
                _restore_pruned_heads(arrays, f"{prefix}.blocks.{block}.{module}.inner.", attention)
    return {name: tensor.numpy() for name, tensor in arrays.items()}


def _restore_pruned_heads(arrays: dict[str, Tensor], prefix: str, attention: Attention) -> None:
    """Insert rows and columns of zeros for pruned heads, whose output is zero."""
    width = attention.head_width
    rows = torch.tensor([head * width + i for head in attention.kept_heads for i in range(width)])
    for name in [name for name in arrays if name.startswith(prefix)]:
        axis = 1 if name.endswith("out.weight") else 0
        if name.endswith("out.bias"):
            continue
        size = list(arrays[name].shape)
        size[axis] = attention.total_heads * width
        arrays[name] = torch.zeros(size).index_copy(axis, rows, arrays[name])


def find_pruned_heads(network: Network) -> dict[str, dict[str, list[int]]]:
    """List the pruned heads by part and block."""
    pruned: dict[str, dict[str, list[int]]] = {}
    for part in ("encoder", "decoder", "cross"):
        for block, attention in enumerate(network.attentions(part)):
            removed = sorted(set(range(attention.total_heads)) - set(attention.kept_heads))
            if removed:
                pruned.setdefault(part, {})[str(block)] = removed
    return pruned
