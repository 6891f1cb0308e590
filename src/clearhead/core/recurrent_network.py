"""The recurrent pair as a whole model: the same call and the same decoding protocol as a pair of stacks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from clearhead.core.alignment import Source
from clearhead.core.attention import Attention, Kernel, Recorder, fused
from clearhead.core.head import Head
from clearhead.core.layout import Layout, Packed, Padded
from clearhead.core.models import Network, Result
from clearhead.core.recurrent import Decoder, Encoder, Memory, Written
from clearhead.errors import InputError
from clearhead.shape import ModelShape


class RecurrentNetwork(Network):
    """Encoder, bridge, decoder with or without attention, and a head; what it has none of is None."""

    stack: Encoder  # type: ignore[assignment]
    decoder: Decoder  # type: ignore[assignment]

    def __init__(self, shape: ModelShape) -> None:
        nn.Module.__init__(self)
        top = shape.top
        if shape.stack.recurrent is None or top.recurrent is None or shape.decoder is None:
            raise InputError(f"{shape.family} is not a recurrent pair of encoder and decoder.")
        self.shape = shape
        self.stack = Encoder(shape.stack, shape.stack.recurrent)
        self.decoder = Decoder(top, top.recurrent)
        self.pooler = self.second = None
        self.head = None if shape.head is None else Head(shape.head, top.width)
        self.tie()

    def read(self, ids: Tensor, layout: Layout) -> tuple[list[Tensor], Source, list[Memory]]:
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
        kernel: Kernel = fused,
        head_scale: dict[str, Tensor] | None = None,
        whole: bool = True,
    ) -> Result:
        """The source padded with a mask, or packed with lengths; with target ids, logits of what follows each of them.

        Teacher forcing: `target_ids` are the right words shifted by one, whatever the model itself would have said.
        A `Recorder` as the kernel keeps what attention did.
        """
        if head_scale:
            raise InputError(f"{self.shape.family} has no attention heads that could be scaled.")
        if lengths is not None and (ids.ndim != 1 or int(lengths.sum()) != len(ids) or int(lengths.min()) < 1):
            raise InputError(f"lengths must be the tokens of each text, {ids.numel()} in all, and each at least 1.")
        layout: Layout = Padded(ids, mask) if lengths is None else Packed(lengths)
        hidden, source, ends = self.read(ids, layout)
        result = Result(hidden, layout)
        if target_ids is None:
            return result
        target = Padded(target_ids, target_mask)
        states, aligned, _ = self.decoder(target_ids, target, source, self.decoder.begin(ends), going_on=False)
        if isinstance(kernel, Recorder):
            kernel.steps += aligned.steps(source, products=self.decoder.products)
        result.target_hidden = [*states[:-1], aligned.mixed]
        if self.head is not None:
            result.logits = self.head(aligned.mixed, target, None)
        return result

    def attentions(self, part: str) -> list[Attention]:
        """None: one alignment without heads, which nobody prunes."""
        return []


@dataclass(frozen=True)
class RecurrentState:
    """A decoder between two steps."""

    source: Source
    written: Written
    probs: Tensor | None = None  # (batch, new, source): where the words of the last step looked; None: no attention

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        return self.source.states.device

    def reorder(self, rows: Tensor) -> RecurrentState:
        """The same for other rows of the batch."""
        probs = None if self.probs is None else self.probs[rows]
        return RecurrentState(self.source.reorder(rows), self.written.reorder(rows), probs)


def begin(network: RecurrentNetwork, ids: Tensor, mask: Tensor | None = None) -> RecurrentState:
    """The state after reading the source."""
    _, source, ends = network.read(ids, Padded(ids, mask))
    return RecurrentState(source, network.decoder.begin(ends))


def step(
    network: RecurrentNetwork, state: RecurrentState, ids: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, RecurrentState]:
    """Feed new tokens (batch, new): logits of every new token, and the state after them."""
    if network.head is None:
        raise InputError("This model has no head that could name the next word.")
    layout = Padded(ids, mask)
    _, aligned, written = network.decoder(ids, layout, state.source, state.written, going_on=True)
    logits = network.head(aligned.mixed, layout, None)
    return logits, replace(state, written=written, probs=aligned.probs)
