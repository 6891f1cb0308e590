"""Attention: softmax(Q K^T / sqrt(d)) V, by a fused kernel, or step by step when somebody wants to look.

A query asks, keys are matched to it, and the answer is the mixture of the values: a soft dictionary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.core.layers import Linear
from clearhead.core.layout import Layout
from clearhead.core.positions import NoRelativeBias
from clearhead.shape import Shape

LOW = -1e9  # what a forbidden score gets: exactly zero after the softmax, and never NaN in a row of padding


class Kernel(Protocol):
    """From queries, keys and values to contexts; `where` says which attention of the model it is."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, dropout: float, where: AttentionId
    ) -> Tensor: ...


@dataclass(frozen=True)
class AttentionId:
    """One attention of a model: whose ("encoder", "decoder", "cross") and in which layer."""

    part: str
    layer: int


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, dropout: float, where: AttentionId
) -> Tensor:
    """The fast path: torch's kernel never writes the scores down."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout, scale=scale)


@dataclass
class AttentionSteps:
    """What one attention did: all of shape (batch, heads, ...)."""

    part: str
    layer: int
    queries: Tensor
    keys: Tensor
    values: Tensor
    scores: Tensor  # before the softmax, scaled, with position bias and mask
    probs: Tensor
    context: Tensor
    has_dot_products: bool = True  # scores are made of query times key; not those of additive attention


@dataclass
class Recorder:
    """The explicit path: the same numbers, step by step, kept for a trace."""

    steps: list[AttentionSteps] = field(default_factory=list)

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, dropout: float, where: AttentionId
    ) -> Tensor:
        # Q K^T / sqrt(d): divided so that the softmax stays out of saturation, where gradients die
        scores = q @ k.transpose(-1, -2) * scale
        if bias is not None:
            scores = scores + bias
        probs = scores.softmax(-1)
        # Z = softmax(Q K^T / sqrt(d)) V
        context = F.dropout(probs, dropout) @ v
        self.steps.append(AttentionSteps(where.part, where.layer, q, k, v, scores, probs, context))
        return context


class Cache:
    """Keys and values of the words already decoded, and of the encoder's words, which never change."""

    def __init__(self) -> None:
        self.self_kv: dict[int, tuple[Tensor, Tensor]] = {}
        self.memory: dict[int, tuple[Tensor, Tensor]] = {}

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values so far, the new ones last."""
        if layer in self.self_kv:
            past_k, past_v = self.self_kv[layer]
            k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        self.self_kv[layer] = k, v
        return k, v

    def get_or_compute(self, layer: int, make: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """The encoder's keys and values for this layer, computed at the first step."""
        if layer not in self.memory:
            self.memory[layer] = make()
        return self.memory[layer]

    def copy(self) -> Cache:
        """The same keys and values, so that a step never changes the state it started from."""
        other = Cache()
        other.self_kv, other.memory = dict(self.self_kv), dict(self.memory)
        return other

    def reorder(self, rows: Tensor) -> Cache:
        """The same for other rows of the batch, as beam search asks for."""
        other = Cache()
        other.self_kv = {layer: (k[rows], v[rows]) for layer, (k, v) in self.self_kv.items()}
        other.memory = {layer: (k[rows], v[rows]) for layer, (k, v) in self.memory.items()}
        return other


class NoCache(Cache):
    """Keeps nothing: every word is seen in one pass."""

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return k, v

    def get_or_compute(self, layer: int, make: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        return make()


@dataclass
class AttentionInputs:
    """What every attention of one pass through a stack is given."""

    layout: Layout  # of the tokens that ask
    places: Tensor  # (1|batch, queries): the place of each of them in its text
    new_layout: Layout  # of the tokens that come in; nearly always the same ones
    new_places: Tensor  # (1|batch, new)
    key_places: Tensor  # (1|batch, keys): of all tokens so far
    wide: Tensor | None  # bias and mask of layers that see everything, (1|batch, 1|heads, queries, keys)
    narrow: Tensor | None  # and of layers that see a window
    relative: NoRelativeBias
    kernel: Kernel = fused_attention
    cache: Cache = field(default_factory=NoCache)
    part: str = "encoder"
    head_scale: Tensor | None = None  # (layers, heads)
    cross_scale: Tensor | None = None
    memory: Tensor | None = None
    memory_layout: Layout | None = None
    memory_bias: Tensor | None = None
    picked: Tensor | None = None  # (batch, n): the places of the tokens of each text that ask; None: every token

    def select_queries(self, x: Tensor) -> Tensor:
        """Those of the tokens that come in which ask."""
        return x if self.picked is None else self.new_layout.select(x, self.picked)


class Attention(nn.Module):
    """Multi-head attention: heads look in parallel, their contexts are joined and mixed by W_O."""

    def __init__(self, shape: Shape, layer: int = 0) -> None:
        super().__init__()
        inner = shape.heads * shape.head_width
        self.head_width = shape.head_width
        self.kept_heads = tuple(range(shape.heads))  # fewer after pruning
        self.total_heads = shape.heads
        self.is_local = shape.is_local(layer)
        self.scale = shape.score_scale / (layer + 1 if shape.scale_by_layer else 1)
        self.dropout_rate = shape.dropouts.attention_probs
        self.q = Linear(shape.width, inner, shape.attention_bias)
        self.k = Linear(shape.width, inner, shape.attention_bias)
        self.v = Linear(shape.width, inner, shape.attention_bias)
        self.out = Linear(inner, shape.width, shape.attention_bias)

    def split(self, x: Tensor) -> Tensor:
        """(batch, length, heads * head_width) to (batch, heads, length, head_width)."""
        return x.unflatten(-1, (-1, self.head_width)).transpose(1, 2)

    def select_heads(self, per_head: Tensor | None) -> Tensor | None:
        """A bias for the heads that pruning has left."""
        if per_head is None or per_head.shape[1] == 1 or len(self.kept_heads) == self.total_heads:
            return per_head
        return per_head[:, list(self.kept_heads)]

    def scale_heads(self, context: Tensor, scale: Tensor | None, layer: int) -> Tensor:
        """Each head's context times its number: 0 silences a head, 1 leaves it."""
        if scale is None:
            return context
        return context * scale[layer, list(self.kept_heads)][:, None, None]

    def prune(self, heads: set[int]) -> None:
        """Remove heads for good: their rows of W_Q, W_K, W_V and their columns of W_O."""
        stay = [place for place, head in enumerate(self.kept_heads) if head not in heads]
        rows = torch.tensor([p * self.head_width + i for p in stay for i in range(self.head_width)])
        for name, linear in list(self.named_children()):
            if isinstance(linear, nn.Linear):
                setattr(self, name, _select_features(linear, rows, columns=name == "out"))
        self.kept_heads = tuple(self.kept_heads[place] for place in stay)

    def merge_heads(self, context: Tensor, layout: Layout) -> Tensor:
        """Heads side by side again, through W_O, as the tokens lie."""
        return self.out(layout.gather(context.transpose(1, 2).flatten(2)))

    @property
    def dropout(self) -> float:
        """The share of probabilities dropped: none outside training."""
        return self.dropout_rate if self.training else 0.0


def _select_features(linear: nn.Linear, rows: Tensor, *, columns: bool) -> nn.Linear:
    weight = linear.weight.detach().index_select(1 if columns else 0, rows)
    smaller = Linear(weight.shape[1], weight.shape[0], linear.bias is not None)
    smaller.weight = nn.Parameter(weight.contiguous())
    if linear.bias is not None:
        bias = linear.bias.detach()
        smaller.bias = nn.Parameter(bias.clone() if columns else bias.index_select(0, rows))
    return smaller


class SelfAttention(Attention):
    """Queries, keys and values all come from the same words."""

    def __init__(self, shape: Shape, layer: int = 0) -> None:
        super().__init__(shape, layer)
        own = shape.relative == "disentangled" and not shape.share_projections
        self.position_prefix = "position_" if own else ""
        inner = shape.heads * shape.head_width
        if own and "c2p" in shape.relative_terms:
            self.position_k = Linear(shape.width, inner)
        if own and "p2c" in shape.relative_terms:
            self.position_q = Linear(shape.width, inner)

    def project_distances(self, part: str, rows: Tensor) -> Tensor:
        """DeBERTa's distances as queries ("q") or keys ("k"), by their own matrices or the words': (1, heads, ...)."""
        return self.split(self.get_submodule(self.position_prefix + part)(rows)[None])

    def forward(self, x: Tensor, given: AttentionInputs, layer: int) -> Tensor:
        relative, spread = given.relative, given.new_layout.pad
        q = self.split(given.layout.pad(self.q(given.select_queries(x))))  # (batch, heads, length, head_width)
        k, v = self.split(spread(self.k(x))), self.split(spread(self.v(x)))
        q, k = relative.rotate(q, given.places, self.is_local), relative.rotate(k, given.new_places, self.is_local)
        k, v = given.cache.extend(layer, k, v)
        bias = relative.add_layer_bias(
            self.select_heads(given.narrow if self.is_local else given.wide), q, k, self, given
        )
        context = given.kernel(q, k, v, bias, self.scale, self.dropout, AttentionId(given.part, layer))
        return self.merge_heads(self.scale_heads(context, given.head_scale, layer), given.layout)


class CrossAttention(Attention):
    """Queries come from below, keys and values from the encoder's last layer."""

    def keys_and_values(self, given: AttentionInputs) -> tuple[Tensor, Tensor]:
        """The encoder's words as this layer sees them."""
        spread = given.memory_layout.pad  # type: ignore[union-attr]
        return self.split(spread(self.k(given.memory))), self.split(spread(self.v(given.memory)))

    def forward(self, x: Tensor, given: AttentionInputs, layer: int) -> Tensor:
        q = self.split(given.layout.pad(self.q(x)))
        k, v = given.cache.get_or_compute(layer, lambda: self.keys_and_values(given))
        context = given.kernel(q, k, v, given.memory_bias, self.scale, self.dropout, AttentionId("cross", layer))
        return self.merge_heads(self.scale_heads(context, given.cross_scale, layer), given.layout)


def attention(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> tuple[Tensor, Tensor]:
    """The lecture's equation on plain matrices: contexts and probabilities."""
    recorder = Recorder()
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    context = recorder(q[None, None], k[None, None], v[None, None], None, scale, 0.0, AttentionId("plain", 0))
    return context[0, 0], recorder.steps[0].probs[0, 0]
