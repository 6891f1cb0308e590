"""The recurrent encoder-decoder, with the call signature and decoding protocol of a Transformer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from clearhead.core.attention import Attention, Kernel, Recorder, fused_attention
from clearhead.core.head import Head
from clearhead.core.layout import Layout, PackedLayout, PaddedLayout
from clearhead.core.models import ForwardOutput, Network, check_lengths
from clearhead.core.recurrent import CellState, DecoderCells, RecurrentDecoder, RecurrentEncoder
from clearhead.core.recurrent_attention import AttentionSource
from clearhead.errors import InputError
from clearhead.shape import ModelShape


class RecurrentNetwork(Network):
    """Encoder, bridge, decoder with or without attention, and a head; pooler and second head are None."""

    stack: RecurrentEncoder  # type: ignore[assignment]
    decoder: RecurrentDecoder  # type: ignore[assignment]

    def __init__(self, shape: ModelShape) -> None:
        nn.Module.__init__(self)
        top = shape.top
        if shape.stack.recurrent is None or top.recurrent is None or shape.decoder is None:
            raise InputError(f"{shape.family} is not a recurrent encoder-decoder.")
        self.shape = shape
        self.stack = RecurrentEncoder(shape.stack, shape.stack.recurrent)
        self.decoder = RecurrentDecoder(top, top.recurrent)
        self.pooler = self.second = None
        self.head = None if shape.head is None else Head(shape.head, top.width)
        self.tie()

    def encode_source(self, ids: Tensor, layout: Layout) -> tuple[list[Tensor], AttentionSource, list[CellState]]:
        """Encode the source: return hidden states, the input of attention, and the final state of each layer."""
        hidden, final_states = self.stack(ids, layout)
        present = None if layout.present is None else layout.present.bool()
        source = self.decoder.align.prepare_source(hidden[-1], present)
        return [layout.pack(state) for state in hidden], source, final_states

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
        all_tokens: bool = True,
    ) -> ForwardOutput:
        """Run both texts, padded with a mask or packed with lengths; with target ids, compute next-token logits.

        The decoder is teacher-forced: `target_ids` are the correct tokens, shifted right by one, regardless of what
        the model would have predicted. A `Recorder` as the kernel keeps the attention steps.
        """
        if head_scale:
            raise InputError(f"{self.shape.family} has no attention heads to scale.")
        check_lengths(ids, lengths, "lengths")
        check_lengths(target_ids, target_lengths, "target_lengths")
        layout: Layout = PaddedLayout(ids, mask) if lengths is None else PackedLayout(lengths)
        hidden, source, final_states = self.encode_source(ids, layout)
        result = ForwardOutput(hidden, layout)
        if target_ids is None:
            return result
        target: Layout = (
            PaddedLayout(target_ids, target_mask) if target_lengths is None else PackedLayout(target_lengths)
        )
        states, attended, _ = self.decoder(
            target_ids, target, source, self.decoder.init_cells(final_states), needs_state=False
        )
        if isinstance(kernel, Recorder):
            kernel.steps += attended.to_steps(source, products=self.decoder.has_dot_products)
        result.target_hidden = [target.pack(state) for state in (*states[:-1], attended.attentional)]
        if self.head is not None:
            keep_packed = not all_tokens and target_lengths is not None  # logits of only the real tokens, packed
            top = result.target_hidden[-1][None] if keep_packed else attended.attentional
            logits = self.head(top, PaddedLayout(top[..., 0], None), None)
            result.logits = logits[0] if keep_packed else logits
        return result

    def compute_head_input(
        self,
        ids: Tensor,
        layout: Layout,
        segments: Tensor | None = None,
        target: tuple[Tensor, Layout] | None = None,
        *,
        kernel: Kernel = fused_attention,
        query_index: Tensor | None = None,
    ) -> Tensor:
        """Compute the attention output, which the head reads, in the layout of the target."""
        if target is None:
            raise InputError(f"{self.shape.family} is an encoder-decoder model and needs a target.")
        _, source, final_states = self.encode_source(ids, layout)
        _, attended, _ = self.decoder(*target, source, self.decoder.init_cells(final_states), needs_state=False)
        return target[1].pack(attended.attentional)

    def attentions(self, part: str) -> list[Attention]:
        """None: the attention has no heads to prune."""
        return []


@dataclass(frozen=True)
class RecurrentState:
    """State of a decoder between two steps."""

    source: AttentionSource
    cells: DecoderCells
    probs: Tensor | None = None  # (batch, new, source): attention of the last step; None: no attention

    @property
    def device(self) -> torch.device:
        """The device of its tensors."""
        return self.source.states.device

    def reorder(self, rows: Tensor) -> RecurrentState:
        """Select rows of the batch, as beam search does."""
        probs = None if self.probs is None else self.probs[rows]
        return RecurrentState(self.source.reorder(rows), self.cells.reorder(rows), probs)


def start_decoding(network: RecurrentNetwork, ids: Tensor, mask: Tensor | None = None) -> RecurrentState:
    """Encode the source and create the initial state."""
    _, source, final_states = network.encode_source(ids, PaddedLayout(ids, mask))
    return RecurrentState(source, network.decoder.init_cells(final_states))


def decode_step(
    network: RecurrentNetwork,
    state: RecurrentState,
    ids: Tensor,
    mask: Tensor | None = None,
    kernel: Kernel = fused_attention,
) -> tuple[Tensor, RecurrentState]:
    """Feed new tokens (batch, new) to the decoder; return their logits and the new state."""
    if network.head is None:
        raise InputError("This model has no language-model head to predict the next token.")
    layout = PaddedLayout(ids, mask)
    _, attended, cells = network.decoder(ids, layout, state.source, state.cells, needs_state=True)
    if isinstance(kernel, Recorder):
        kernel.steps += attended.to_steps(state.source, products=network.decoder.has_dot_products)
    logits = network.head(attended.attentional, layout, None)
    return logits, replace(state, cells=cells, probs=attended.probs)
