"""Cross-attention of given targets for a batch, from selected layers and without computing logits."""

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
    """Keeps the cross-attention of selected layers; all other attention takes the fast path."""

    def __init__(self, layers: Sequence[int]) -> None:
        super().__init__()
        self.layers = frozenset(layers)

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        scale: float,
        dropout: float,
        attention_id: AttentionId,
    ) -> Tensor:
        is_selected = attention_id.part == "cross" and attention_id.layer in self.layers
        return (super().__call__ if is_selected else fused_attention)(q, k, v, bias, scale, dropout, attention_id)


@torch.no_grad()
def compute_cross_attention(
    runner: CoreRunner, batch: Batch, layers: Sequence[int], head: int | None
) -> np.ndarray[Any, Any]:
    """Compute (batch, target, source): the mean attention over the layers, of one head or of all heads."""
    network, was_training = runner.network, runner.network.training
    ids, mask, _, target_ids, target_mask = runner._tensors(batch)
    assert ids is not None  # a batch always has ids, and this batch has targets
    assert target_ids is not None
    source_layout, layout = PaddedLayout(ids, mask), PaddedLayout(target_ids, target_mask)
    network.eval()
    try:
        if isinstance(network, RecurrentNetwork):
            _, source, final_states = network.encode_source(ids, source_layout)
            cells = network.decoder.init_cells(final_states)
            attended = network.decoder(target_ids, layout, source, cells, needs_state=False)[1]
            layer_probs = [] if attended.probs is None else [attended.probs]
        else:
            recorder = CrossRecorder(layers)
            memory = network.encode(ids, source_layout)[-1]
            network.decode(target_ids, layout, memory, source_layout, kernel=recorder)
            layer_probs = [_select_head(network, steps.layer, steps.probs, head) for steps in recorder.steps]
    finally:
        network.train(was_training)
    if not layer_probs:
        raise InputError(f"{runner.shape.family} has no attention to the source, so words cannot be aligned.")
    mean_probs: np.ndarray[Any, Any] = torch.stack(layer_probs).float().mean(0).cpu().numpy()
    return mean_probs


def _select_head(network: Network, layer: int, probs: Tensor, head: int | None) -> Tensor:
    """Select one head of (batch, heads, target, source), by its number before pruning, or average all heads."""
    if head is None:
        return probs.mean(1)
    blocks = network.attentions("cross")
    remaining = blocks[layer % len(blocks)].kept_heads
    if head not in remaining:
        raise InputError(f"Layer {layer} has no head {head}, expected one of: {', '.join(map(str, remaining))}.")
    return probs[:, remaining.index(head)]
