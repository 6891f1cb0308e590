"""Where the words of given targets look in their sources, for a batch: some layers are kept, and no logits made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clearhead.batch import Batch
from clearhead.core.attention import AttentionId, Recorder, fused_attention
from clearhead.core.layout import PaddedLayout
from clearhead.core.models import Network
from clearhead.core.recurrent_network import RecurrentNetwork
from clearhead.core.runner import CoreRunner
from clearhead.errors import InputError

if TYPE_CHECKING:
    import numpy as np


class CrossRecorder(Recorder):
    """Keeps the cross-attention of some layers; everything else takes the fast path."""

    def __init__(self, layers: Sequence[int]) -> None:
        super().__init__()
        self.layers = frozenset(layers)

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, dropout: float, where: AttentionId
    ) -> Tensor:
        kept = where.part == "cross" and where.layer in self.layers
        return (super().__call__ if kept else fused_attention)(q, k, v, bias, scale, dropout, where)


@torch.no_grad()
def compute_cross_attention(
    runner: CoreRunner, batch: Batch, layers: Sequence[int], head: int | None
) -> np.ndarray[Any, Any]:
    """(batch, target, source): the mean probability over some layers, of one head or of all."""
    network, learning = runner.network, runner.network.training
    ids, mask, _, target_ids, target_mask = runner._tensors(batch)
    assert ids is not None  # a batch has ids, and this one targets
    assert target_ids is not None
    source_layout, layout = PaddedLayout(ids, mask), PaddedLayout(target_ids, target_mask)
    network.eval()
    try:
        if isinstance(network, RecurrentNetwork):
            _, source, ends = network.read(ids, source_layout)
            aligned = network.decoder(target_ids, layout, source, network.decoder.begin(ends), going_on=False)[1]
            found = [] if aligned.probs is None else [aligned.probs]
        else:
            recorder = CrossRecorder(layers)
            memory = network.encode(ids, source_layout)[-1]
            network.decode(target_ids, layout, memory, source_layout, kernel=recorder)
            found = [_select_head(network, steps.layer, steps.probs, head) for steps in recorder.steps]
    finally:
        network.train(learning)
    if not found:
        raise InputError(f"{runner.shape.family} looks at no source words: it has no attention to align by.")
    made: np.ndarray[Any, Any] = torch.stack(found).float().mean(0).cpu().numpy()
    return made


def _select_head(network: Network, layer: int, probs: Tensor, head: int | None) -> Tensor:
    """(batch, heads, target, source) to one head, by its number before pruning, or to the mean of all."""
    if head is None:
        return probs.mean(1)
    blocks = network.attentions("cross")
    left = blocks[layer % len(blocks)].kept_heads
    if head not in left:
        raise InputError(f"Layer {layer} has the heads {', '.join(map(str, left))}, and no head {head}.")
    return probs[:, left.index(head)]
