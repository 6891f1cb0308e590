"""The whole model: a stack or a pair of stacks, a pooler and heads, tied where the shape says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from clearhead import tensors
from clearhead.core.attention import Attention, Cache, Kernel, fused_attention
from clearhead.core.head import Head, Pooler
from clearhead.core.layout import Layout, PackedLayout, PaddedLayout
from clearhead.core.stack import Stack
from clearhead.errors import InputError
from clearhead.shape import ModelShape


@dataclass
class NetworkOutput:
    """What a pass gives, as tensors; encoder-decoder models have both hidden lists."""

    hidden: list[Tensor]
    layout: Layout
    target_hidden: list[Tensor] | None = None
    pooled: Tensor | None = None
    logits: Tensor | None = None
    next_sentence: Tensor | None = None

    @property
    def last(self) -> Tensor:
        """The top of the encoder, or of GPT's only stack."""
        return self.hidden[-1]


class Network(nn.Module):
    """One class for every family: what differs is in the ModelShape."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        self.stack = Stack(shape.stack)
        self.decoder = None if shape.decoder is None else Stack(shape.decoder)
        self.pooler = None if shape.pooler is None else Pooler(shape.pooler, shape.stack.width)
        self.head = None if shape.head is None else Head(shape.head, shape.top.width)
        self.second = None if shape.second_head is None else Head(shape.second_head, shape.top.width)
        self.tie()

    def tie(self) -> None:
        """Make tied tensors one and the same parameter."""
        for name, source in tensors.tied_tensors(self.shape).items():
            owner, _, leaf = name.rpartition(".")
            setattr(self.get_submodule(owner), leaf, self.get_parameter(source))

    def encode(self, ids: Tensor, layout: Layout, segments: Tensor | None = None, **look: Any) -> list[Tensor]:
        """Hidden states of the encoder, or of GPT's only stack."""
        return self.stack(ids, layout, segments, **look)

    def decode(self, ids: Tensor, layout: Layout, memory: Tensor, memory_layout: Layout, **look: Any) -> list[Tensor]:
        """Hidden states of the decoder: the encoder's top layer is the memory of every block."""
        if self.decoder is None:
            raise InputError(f"{self.shape.family} has no decoder that could take target_ids.")
        return self.decoder(ids, layout, memory=memory, memory_layout=memory_layout, part="decoder", **look)

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
        """Padded: ids (batch, length) with a mask. Packed: ids (tokens,) with lengths (batch,); targets likewise.

        Not `whole`: of the last layer only the tokens that the head reads are computed, for the same logits; packed, a
        head that reads every token answers (tokens, outputs).
        """
        check_lengths(ids, lengths, "lengths")
        check_lengths(target_ids, target_lengths, "target_lengths")
        scale = head_scale or {}
        layout: Layout = PaddedLayout(ids, mask) if lengths is None else PackedLayout(lengths)
        picked = None if whole else self.picked(layout)
        hidden = self.encode(ids, layout, segments, kernel=kernel, head_scale=scale.get("encoder"), picked=picked)
        result = NetworkOutput(hidden, layout)
        top, top_layout = result.last, layout if picked is None else PaddedLayout(picked, None)
        if self.decoder is not None:
            if target_ids is None:
                return result
            top_layout = (
                PaddedLayout(target_ids, target_mask) if target_lengths is None else PackedLayout(target_lengths)
            )
            result.target_hidden = self.decode(
                target_ids,
                top_layout,
                result.last,
                layout,
                kernel=kernel,
                head_scale=scale.get("decoder"),
                cross_scale=scale.get("cross"),
            )
            top = result.target_hidden[-1]
        if self.pooler is not None:
            result.pooled = self.pooler(top, top_layout)
        if self.head is not None:
            packed = lengths if self.decoder is None else target_lengths
            if not whole and packed is not None and self.head.shape.pooling == "each":
                # tokens stay end to end: no rectangle is made for a head that reads each of them
                result.logits = self.head(top[None], PaddedLayout(top[None, :, 0], None), None)[0]
            else:
                result.logits = self.head(top, top_layout, result.pooled)
        if self.second is not None:
            result.next_sentence = self.second(top, top_layout, result.pooled)
        elif self.head is not None and self.head.shape.kind == "next":
            result.next_sentence = result.logits
        return result

    def picked(self, layout: Layout) -> Tensor | None:
        """The place of the one token of each text that the head reads, (batch, 1); None if it reads more than one."""
        if self.head is None or self.decoder is not None or self.shape.stack.layers < 2:
            return None
        places = {"first": layout.first, "pooled": layout.first, "last": layout.last}
        return places[self.head.shape.pooling]()[:, None] if self.head.shape.pooling in places else None

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
        """What the head would read: hidden states as tokens lie, or (batch, n, width) of the `picked` ones alone."""
        if self.decoder is None:
            return self.encode(ids, layout, segments, kernel=kernel, picked=picked)[-1]
        if target is None:
            raise InputError(f"{self.shape.family} says nothing without a target.")
        memory = self.encode(ids, layout, segments, kernel=kernel)[-1]
        return self.decode(target[0], target[1], memory, layout, kernel=kernel)[-1]

    def attentions(self, part: str) -> list[Attention]:
        """The attention of each block of a part: "encoder", "decoder" or "cross"."""
        stack = self.stack if part == "encoder" else self.decoder
        if stack is None or (part == "cross" and not stack.shape.cross):
            return []
        name = "cross" if part == "cross" else "attend"
        return [getattr(block, name).inner for block in stack.blocks]

    def prune(self, heads: dict[int, set[int]], part: str = "encoder") -> None:
        """Remove heads for good, per block; layers that share a block lose them together."""
        found = self.attentions(part)
        for block, gone in heads.items():
            if not 0 <= block < len(found):
                raise InputError(f"There is no block {block} in the {part}; it has {len(found)}.")
            unknown = sorted(gone - set(found[block].kept_heads))
            if unknown:
                raise InputError(
                    f"Block {block} of the {part} has no head {unknown[0]} (left: {found[block].kept_heads})."
                )
            if len(gone) >= len(found[block].kept_heads):
                raise InputError(f"Block {block} of the {part} must keep a head; scale its heads by 0 to silence it.")
        for block, gone in heads.items():
            found[block].prune(gone)


def check_lengths(ids: Tensor | None, lengths: Tensor | None, name: str) -> None:
    """One sentence where packed tokens and the lengths of their texts do not go together."""
    if lengths is None:
        return
    if ids is None or ids.ndim != 1 or int(lengths.sum()) != len(ids) or int(lengths.min()) < 1:
        count = 0 if ids is None else ids.numel()
        raise InputError(f"{name} must be the tokens of each text, {count} in all, and each at least 1.")


@dataclass
class TransformerState:
    """A decoder between two steps: its cache, what it may see, and where each row stands."""

    cache: Cache
    present: Tensor  # (batch, keys): which cached tokens are real
    places: Tensor  # (batch, keys): their places
    memory: Tensor | None = None
    memory_layout: Layout | None = None

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        return self.present.device

    def reorder(self, rows: Tensor) -> TransformerState:
        """The same for other rows of the batch."""
        memory, layout = self.memory, self.memory_layout
        if memory is not None and layout is not None:
            memory = memory[rows]
            mask = None if layout.present is None else layout.present[rows]
            layout = PaddedLayout(memory[..., 0], mask)
        return TransformerState(self.cache.reorder(rows), self.present[rows], self.places[rows], memory, layout)


def decode_step(
    network: Network, state: TransformerState, ids: Tensor, mask: Tensor | None = None, kernel: Kernel = fused_attention
) -> tuple[Tensor, TransformerState]:
    """Feed new tokens (batch, new) to a decoder: logits of every new token, and the state after them."""
    if network.head is None:
        raise InputError("This model has no head that could name the next word.")
    real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
    done = state.present.sum(1, keepdim=True)
    places = done + real.long().cumsum(1) - 1  # padding takes no place
    places = places.clamp(min=0)
    present = torch.cat([state.present, real], 1)
    key_places = torch.cat([state.places, places], 1)
    layout = PaddedLayout(ids, None)
    stack = network.decoder or network.stack
    cache = state.cache.copy()
    hidden = stack(
        ids,
        layout,
        kernel=kernel,
        part="decoder",
        memory=state.memory,
        memory_layout=state.memory_layout,
        cache=cache,
        places=places,
        key_places=key_places,
        present=present,
    )
    logits = network.head(hidden[-1], layout, None)
    return logits, TransformerState(cache, present, key_places, state.memory, state.memory_layout)


def start_decoding(network: Network, ids: Tensor, mask: Tensor | None = None) -> TransformerState:
    """An empty state; for a pair, after reading the source."""
    empty = ids.new_zeros((len(ids), 0))
    if network.decoder is None:
        return TransformerState(Cache(), empty.bool(), empty)
    layout = PaddedLayout(ids, mask)
    memory = network.encode(ids, layout)[-1]
    return TransformerState(Cache(), empty.bool(), empty, memory, layout)
