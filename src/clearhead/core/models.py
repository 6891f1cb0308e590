"""The complete network: one or two stacks, a pooler and heads, with parameters tied as the shape defines."""

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
class ForwardOutput:
    """Output tensors of a forward pass; encoder-decoder models have both lists of hidden states."""

    hidden: list[Tensor]
    layout: Layout
    target_hidden: list[Tensor] | None = None
    pooled: Tensor | None = None
    logits: Tensor | None = None
    next_sentence: Tensor | None = None

    @property
    def last(self) -> Tensor:
        """The last hidden state of the encoder, or of the only stack."""
        return self.hidden[-1]


class Network(nn.Module):
    """The network of every Transformer family; all differences are in the ModelShape."""

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
        """Let tied tensors share one parameter."""
        for name, tied_name in tensors.tied_tensors(self.shape).items():
            owner, _, leaf = name.rpartition(".")
            setattr(self.get_submodule(owner), leaf, self.get_parameter(tied_name))

    def encode(self, ids: Tensor, layout: Layout, segments: Tensor | None = None, **options: Any) -> list[Tensor]:
        """Compute the hidden states of the encoder, or of the only stack."""
        return self.stack(ids, layout, segments, **options)

    def decode(
        self, ids: Tensor, layout: Layout, memory: Tensor, memory_layout: Layout, **options: Any
    ) -> list[Tensor]:
        """Compute the hidden states of the decoder; each block attends to `memory`, the encoder's last hidden state."""
        if self.decoder is None:
            raise InputError(f"{self.shape.family} has no decoder, so it accepts no target_ids.")
        return self.decoder(ids, layout, memory=memory, memory_layout=memory_layout, part="decoder", **options)

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
        """Run the network on padded ids (batch, length) with a mask, or packed ids (tokens,) with lengths (batch,).

        Targets are passed in the same way. With `all_tokens=False`, the last layer computes only the tokens that the
        head reads, with the same logits; for packed ids, a head that reads every token returns (tokens, outputs).
        """
        check_lengths(ids, lengths, "lengths")
        check_lengths(target_ids, target_lengths, "target_lengths")
        scale = head_scale or {}
        layout: Layout = PaddedLayout(ids, mask) if lengths is None else PackedLayout(lengths)
        query_index = None if all_tokens else self.head_positions(layout)
        hidden = self.encode(
            ids, layout, segments, kernel=kernel, head_scale=scale.get("encoder"), query_index=query_index
        )
        result = ForwardOutput(hidden, layout)
        top, top_layout = result.last, layout if query_index is None else PaddedLayout(query_index, None)
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
            if not all_tokens and packed is not None and self.head.shape.pooling == "each":
                # tokens stay packed: a head that reads every token needs no rectangle
                result.logits = self.head(top[None], PaddedLayout(top[None, :, 0], None), None)[0]
            else:
                result.logits = self.head(top, top_layout, result.pooled)
        if self.second is not None:
            result.next_sentence = self.second(top, top_layout, result.pooled)
        elif self.head is not None and self.head.shape.kind == "next":
            result.next_sentence = result.logits
        return result

    def head_positions(self, layout: Layout) -> Tensor | None:
        """Positions of the only token of each text that the head reads, (batch, 1); None if it reads more than one."""
        if self.head is None or self.decoder is not None or self.shape.stack.layers < 2:
            return None
        positions = {"first": layout.first_positions, "pooled": layout.first_positions, "last": layout.last_positions}
        return positions[self.head.shape.pooling]()[:, None] if self.head.shape.pooling in positions else None

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
        """Compute the head's input: the last hidden state of all tokens, or (batch, n, width) of `query_index`."""
        if self.decoder is None:
            return self.encode(ids, layout, segments, kernel=kernel, query_index=query_index)[-1]
        if target is None:
            raise InputError(f"{self.shape.family} is an encoder-decoder model and needs a target.")
        memory = self.encode(ids, layout, segments, kernel=kernel)[-1]
        return self.decode(target[0], target[1], memory, layout, kernel=kernel)[-1]

    def attentions(self, part: str) -> list[Attention]:
        """List the attention modules of a part, one per block: "encoder", "decoder" or "cross"."""
        stack = self.stack if part == "encoder" else self.decoder
        if stack is None or (part == "cross" and not stack.shape.cross):
            return []
        name = "cross" if part == "cross" else "attend"
        return [getattr(block, name).inner for block in stack.blocks]

    def prune(self, heads: dict[int, set[int]], part: str = "encoder") -> None:
        """Remove heads permanently, per block; layers that share a block lose the same heads."""
        attentions = self.attentions(part)
        for block, removed in heads.items():
            if not 0 <= block < len(attentions):
                raise InputError(f"{part!r} has no block {block}; it has {len(attentions)} blocks.")
            missing = sorted(removed - set(attentions[block].kept_heads))
            if missing:
                raise InputError(
                    f"Block {block} of the {part} has no head {missing[0]} (remaining: {attentions[block].kept_heads})."
                )
            if len(removed) >= len(attentions[block].kept_heads):
                raise InputError(
                    f"Block {block} of the {part} must keep at least one head; use head_scale=0 to silence it."
                )
        for block, removed in heads.items():
            attentions[block].prune(removed)


def check_lengths(ids: Tensor | None, lengths: Tensor | None, name: str) -> None:
    """Check that the lengths of packed texts sum to the number of tokens."""
    if lengths is None:
        return
    if ids is None or ids.ndim != 1 or int(lengths.sum()) != len(ids) or int(lengths.min()) < 1:
        count = 0 if ids is None else ids.numel()
        raise InputError(f"{name} must be at least 1 each and sum to {count}, the number of tokens.")


@dataclass
class TransformerState:
    """State of a decoder between two steps: its cache, mask and positions."""

    cache: Cache
    present: Tensor  # (batch, keys): which cached tokens are real
    positions: Tensor  # (batch, keys): positions of the cached tokens
    memory: Tensor | None = None
    memory_layout: Layout | None = None

    @property
    def device(self) -> torch.device:
        """The device of its tensors."""
        return self.present.device

    def reorder(self, rows: Tensor) -> TransformerState:
        """Select rows of the batch, as beam search does."""
        memory, layout = self.memory, self.memory_layout
        if memory is not None and layout is not None:
            memory = memory[rows]
            mask = None if layout.present is None else layout.present[rows]
            layout = PaddedLayout(memory[..., 0], mask)
        return TransformerState(self.cache.reorder(rows), self.present[rows], self.positions[rows], memory, layout)


def decode_step(
    network: Network, state: TransformerState, ids: Tensor, mask: Tensor | None = None, kernel: Kernel = fused_attention
) -> tuple[Tensor, TransformerState]:
    """Feed new tokens (batch, new) to a decoder; return their logits and the new state."""
    if network.head is None:
        raise InputError("This model has no language-model head to predict the next token.")
    real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
    cached_count = state.present.sum(1, keepdim=True)
    positions = cached_count + real.long().cumsum(1) - 1  # padding occupies no position
    positions = positions.clamp(min=0)
    present = torch.cat([state.present, real], 1)
    key_positions = torch.cat([state.positions, positions], 1)
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
        positions=positions,
        key_positions=key_positions,
        present=present,
    )
    logits = network.head(hidden[-1], layout, None)
    return logits, TransformerState(cache, present, key_positions, state.memory, state.memory_layout)


def start_decoding(network: Network, ids: Tensor, mask: Tensor | None = None) -> TransformerState:
    """Create the initial state; an encoder-decoder model encodes the source."""
    empty = ids.new_zeros((len(ids), 0))
    if network.decoder is None:
        return TransformerState(Cache(), empty.bool(), empty)
    layout = PaddedLayout(ids, mask)
    memory = network.encode(ids, layout)[-1]
    return TransformerState(Cache(), empty.bool(), empty, memory, layout)
