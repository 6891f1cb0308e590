"""From a shape and named arrays to a network, without a second copy of the weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from clearhead import tensors
from clearhead.core.initial import draw
from clearhead.core.models import Network
from clearhead.shape import ModelShape

if TYPE_CHECKING:
    import numpy as np


def build(
    shape: ModelShape, arrays: Iterable[tuple[str, np.ndarray[Any, Any]]] = (), *, seed: int | None = 0
) -> Network:
    """A network whose parameters are the given arrays themselves; those not given are drawn fresh."""
    with torch.device("meta"):
        network = Network(shape)
    given = {name: torch.from_numpy(array) for name, array in arrays}
    fresh = [name for name in tensors.expected(shape) if name not in given]
    sizes = tensors.expected(shape)
    made = {name: torch.empty(sizes[name]) for name in fresh}
    if fresh:
        with torch.random.fork_rng(devices=[]):
            if seed is not None:
                torch.manual_seed(seed)
            draw(made.items(), shape)
    for name, tensor in (given | made).items():
        place(network, name, tensor)
    network.tie()
    return network.eval()


def place(network: Network, name: str, tensor: Tensor) -> None:
    """Put one parameter in its place."""
    owner, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(owner), leaf, nn.Parameter(tensor))


def named_arrays(network: Network) -> dict[str, np.ndarray[Any, Any]]:
    """Every parameter as an array, tied ones once, without a copy where they are float32 on the CPU."""
    made = {}
    tied = tensors.ties(network.shape)
    for name, parameter in network.named_parameters(remove_duplicate=False):
        if name not in tied:
            made[name] = parameter.detach().to("cpu", torch.float32).numpy()
    return made
