"""The recurrent pair as a whole model: the same call and the same decoding protocol as a pair of stacks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from clearhead.core.attention import Attention, Kernel, Recorder, fused_attention
from clearhead.core.head import Head
from clearhead.core.layout import Layout, PackedLayout, PaddedLayout
from clearhead.core.models import Network, NetworkOutput, check_lengths
from clearhead.core.recurrent import CellState, DecoderCells, RecurrentDecoder, RecurrentEncoder
from clearhead.core.recurrent_attention import AttentionSource
from clearhead.errors import InputError
from clearhead.shape import ModelShape


class RecurrentNetwork(Network):
    """Encoder, bridge, decoder with or without attention, and a head; what it has none of is None."""

    stack: RecurrentEncoder  # type: ignore[assignment]
    decoder: RecurrentDecoder  # type: ignore[assignment]

    def __init__(self, shape: ModelShape) -> None:
        nn.Module.__init__(self)
        top = shape.top
        if shape.stack.recurrent is None or top.recurrent is None or shape.decoder is None:
            raise InputError(f"{shape.family} is not a recurrent pair of encoder and decoder.")
        self.shape = shape
        self.stack = RecurrentEncoder(shape.stack, shape.stack.recurrent)
        self.decoder = RecurrentDecoder(top, top.recurrent)
        self.pooler = self.second = None
        self.head = None if shape.head is None else Head(shape.head, top.width)
        self.tie()

    def read(self, ids: Tensor, layout: Layout) -> tuple[list[Tensor], AttentionSource, list[CellState]]:
        """The source: hidden states as its words lie, what the decoder may look at, and what each layer remembers."""
        hidden, ends = self.stack(ids, layout)
        present = None if layout.present is None else layout.present.bool()
        source = self.decoder.align.source(hidden[-1], present)
        return [layout.gather(state) for state in hidden], source, ends

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        segments: Tensor | None = None,
        target_ids: Tensor | None = None,
        target_mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        target_lengths: Tensor | None = None,
        kernel: Kernel = fused_attention,
        head_scale: dict[str, Tensor] | None = None,
        whole: bool = True,
    ) -> NetworkOutput:
        """Both texts padded with a mask, or packed with lengths; with target ids, logits of what follows each of them.

        Teacher forcing: `target_ids` are the right words shifted by one, whatever the model itself would have said.
        A `Recorder` as the kernel keeps what attention did.
        """
        if head_scale:
            raise InputError(f"{self.shape.family} has no attention heads that could be scaled.")
        check_lengths(ids, lengths, "lengths")
        check_lengths(target_ids, target_lengths, "target_lengths")
        layout: Layout = PaddedLayout(ids, mask) if lengths is None else PackedLayout(lengths)
        hidden, source, ends = self.read(ids, layout)
        result = NetworkOutput(hidden, layout)
        if target_ids is None:
            return result
        target: Layout = (
            PaddedLayout(target_ids, target_mask) if target_lengths is None else PackedLayout(target_lengths)
        )
        states, aligned, _ = self.decoder(target_ids, target, source, self.decoder.begin(ends), going_on=False)
        if isinstance(kernel, Recorder):
            kernel.steps += aligned.steps(source, products=self.decoder.has_dot_products)
        result.target_hidden = [target.gather(state) for state in (*states[:-1], aligned.attentional)]
        if self.head is not None:
            flat = not whole and target_lengths is not None  # logits of the real words alone, end to end
            top = result.target_hidden[-1][None] if flat else aligned.attentional
            logits = self.head(top, PaddedLayout(top[..., 0], None), None)
            result.logits = logits[0] if flat else logits
        return result

    def compute_head_input(
        self,
        ids: Tensor,
        layout: Layout,
        segments: Tensor | None = None,
        target: tuple[Tensor, Layout] | None = None,
        *,
        kernel: Kernel = fused_attention,
        picked: Tensor | None = None,
    ) -> Tensor:
        """What the head would read, as the words of the target lie."""
        if target is None:
            raise InputError(f"{self.shape.family} says nothing without a target.")
        _, source, ends = self.read(ids, layout)
        _, aligned, _ = self.decoder(*target, source, self.decoder.begin(ends), going_on=False)
        return target[1].gather(aligned.attentional)

    def attentions(self, part: str) -> list[Attention]:
        """None: one alignment without heads, which nobody prunes."""
        return []


@dataclass(frozen=True)
class RecurrentState:
    """A decoder between two steps."""

    source: AttentionSource
    written: DecoderCells
    probs: Tensor | None = None  # (batch, new, source): where the words of the last step looked; None: no attention

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        return self.source.states.device

    def reorder(self, rows: Tensor) -> RecurrentState:
        """The same for other rows of the batch."""
        probs = None if self.probs is None else self.probs[rows]
        return RecurrentState(self.source.reorder(rows), self.written.reorder(rows), probs)


def start_decoding(network: RecurrentNetwork, ids: Tensor, mask: Tensor | None = None) -> RecurrentState:
    """The state after reading the source."""
    _, source, ends = network.read(ids, PaddedLayout(ids, mask))
    return RecurrentState(source, network.decoder.begin(ends))


def decode_step(
    network: RecurrentNetwork,
    state: RecurrentState,
    ids: Tensor,
    mask: Tensor | None = None,
    kernel: Kernel = fused_attention,
) -> tuple[Tensor, RecurrentState]:
    """Feed new tokens (batch, new): logits of every new token, and the state after them."""
    if network.head is None:
        raise InputError("This model has no head that could name the next word.")
    layout = PaddedLayout(ids, mask)
    _, aligned, written = network.decoder(ids, layout, state.source, state.written, going_on=True)
    if isinstance(kernel, Recorder):
        kernel.steps += aligned.steps(state.source, products=network.decoder.has_dot_products)
    logits = network.head(aligned.attentional, layout, None)
    return logits, replace(state, written=written, probs=aligned.probs)
