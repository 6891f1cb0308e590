"""Attention: softmax(Q K^T / sqrt(d)) V, computed by a fused kernel, or step by step for a trace.

Attention is a soft dictionary lookup: a query is compared with every key, and the result is the average of the values,
weighted by how well their keys match.
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

MASKED_SCORE = -1e9  # probability exactly zero after the softmax; finite, so that a row of padding has no NaN


class Kernel(Protocol):
    """Computes contexts from queries, keys and values; `attention_id` names the attention sub-layer."""

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        scale: float,
        dropout: float,
        attention_id: AttentionId,
    ) -> Tensor: ...


@dataclass(frozen=True)
class AttentionId:
    """One attention sub-layer of a model: its part ("encoder", "decoder", "cross") and its layer."""

    part: str
    layer: int


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, dropout: float, attention_id: AttentionId
) -> Tensor:
    """The fast path: torch's kernel never materializes the scores."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout, scale=scale)


@dataclass
class AttentionSteps:
    """Every intermediate result of one attention sub-layer, each of shape (batch, heads, ...)."""

    part: str
    layer: int
    queries: Tensor
    keys: Tensor
    values: Tensor
    scores: Tensor  # before the softmax, scaled, with position bias and mask
    probs: Tensor
    context: Tensor
    has_dot_products: bool = True  # whether scores are query times key; False for additive attention


@dataclass
class Recorder:
    """The explicit path: computes the same numbers step by step and keeps them for a trace."""

    steps: list[AttentionSteps] = field(default_factory=list)

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
        # Q K^T / sqrt(d): a sum of d products has a standard deviation of sqrt(d). Without the division, wide heads
        # would have such large scores that the softmax saturates, and its gradients vanish.
        scores = q @ k.transpose(-1, -2) * scale
        if bias is not None:
            scores = scores + bias
        probs = scores.softmax(-1)
        # Z = softmax(Q K^T / sqrt(d)) V
        context = F.dropout(probs, dropout) @ v
        self.steps.append(AttentionSteps(attention_id.part, attention_id.layer, q, k, v, scores, probs, context))
        return context


class Cache:
    """Keys and values of the tokens decoded so far, and of the encoder's tokens, which never change."""

    def __init__(self) -> None:
        self.self_kv: dict[int, tuple[Tensor, Tensor]] = {}
        self.cross_kv: dict[int, tuple[Tensor, Tensor]] = {}

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append new keys and values, and return all of them."""
        if layer in self.self_kv:
            past_k, past_v = self.self_kv[layer]
            k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        self.self_kv[layer] = k, v
        return k, v

    def get_or_compute(self, layer: int, compute: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Return the encoder's keys and values for this layer, computed in the first step."""
        if layer not in self.cross_kv:
            self.cross_kv[layer] = compute()
        return self.cross_kv[layer]

    def copy(self) -> Cache:
        """Copy the cache, so that a step never changes the state that it started from."""
        copied = Cache()
        copied.self_kv, copied.cross_kv = dict(self.self_kv), dict(self.cross_kv)
        return copied

    def reorder(self, rows: Tensor) -> Cache:
        """Select rows of the batch, as beam search does."""
        copied = Cache()
        copied.self_kv = {layer: (k[rows], v[rows]) for layer, (k, v) in self.self_kv.items()}
        copied.cross_kv = {layer: (k[rows], v[rows]) for layer, (k, v) in self.cross_kv.items()}
        return copied


class NoCache(Cache):
    """Stores nothing, for a pass over all tokens at once."""

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return k, v

    def get_or_compute(self, layer: int, compute: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        return compute()


@dataclass
class AttentionInputs:
    """Inputs of every attention sub-layer in one pass through a stack."""

    query_layout: Layout  # of the tokens that are queries
    query_positions: Tensor  # (1|batch, queries): their positions in their texts
    input_layout: Layout  # of the input tokens; the same unless `query_index` selects some of them
    input_positions: Tensor  # (1|batch, new)
    key_positions: Tensor  # (1|batch, keys): of all tokens, including cached ones
    global_bias: Tensor | None  # bias and mask of layers with global attention, (1|batch, 1|heads, queries, keys)
    local_bias: Tensor | None  # bias and mask of layers with a window
    relative: NoRelativeBias  # the scheme that acts on queries, keys or scores
    kernel: Kernel = fused_attention
    cache: Cache = field(default_factory=NoCache)
    part: str = "encoder"
    head_scale: Tensor | None = None  # (layers, heads)
    cross_scale: Tensor | None = None
    memory: Tensor | None = None  # the last hidden state of the encoder
    memory_layout: Layout | None = None
    memory_bias: Tensor | None = None
    query_index: Tensor | None = None  # (batch, n): positions of the tokens that are queries; None: every token

    def select_queries(self, x: Tensor) -> Tensor:
        """Select the input tokens that are queries."""
        return x if self.query_index is None else self.input_layout.select(x, self.query_index)


class Attention(nn.Module):
    """Multi-head attention: heads attend independently, and W_O mixes their concatenated contexts."""

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

    def split_heads(self, x: Tensor) -> Tensor:
        """(batch, length, heads * head_width) to (batch, heads, length, head_width)."""
        return x.unflatten(-1, (-1, self.head_width)).transpose(1, 2)

    def select_heads(self, bias: Tensor | None) -> Tensor | None:
        """Select the bias of the heads that were not pruned."""
        if bias is None or bias.shape[1] == 1 or len(self.kept_heads) == self.total_heads:
            return bias
        return bias[:, list(self.kept_heads)]

    def scale_heads(self, context: Tensor, scale: Tensor | None, layer: int) -> Tensor:
        """Multiply the context of each head by its scale: 0 silences a head, 1 leaves it unchanged."""
        if scale is None:
            return context
        return context * scale[layer, list(self.kept_heads)][:, None, None]

    def prune(self, heads: set[int]) -> None:
        """Remove heads permanently: their rows of W_Q, W_K, W_V and their columns of W_O."""
        remaining = [index for index, head in enumerate(self.kept_heads) if head not in heads]
        rows = torch.tensor([index * self.head_width + i for index in remaining for i in range(self.head_width)])
        for name, linear in list(self.named_children()):
            if isinstance(linear, nn.Linear):
                setattr(self, name, _select_features(linear, rows, columns=name == "out"))
        self.kept_heads = tuple(self.kept_heads[index] for index in remaining)

    def merge_heads(self, context: Tensor, layout: Layout) -> Tensor:
        """Concatenate the heads, pack the tokens, and apply W_O."""
        return self.out(layout.pack(context.transpose(1, 2).flatten(2)))

    @property
    def dropout(self) -> float:
        """The rate at which probabilities are dropped: zero outside training."""
        return self.dropout_rate if self.training else 0.0


def _select_features(linear: nn.Linear, indices: Tensor, *, columns: bool) -> nn.Linear:
    weight = linear.weight.detach().index_select(1 if columns else 0, indices)
    pruned = Linear(weight.shape[1], weight.shape[0], linear.bias is not None)
    pruned.weight = nn.Parameter(weight.contiguous())
    if linear.bias is not None:
        bias = linear.bias.detach()
        pruned.bias = nn.Parameter(bias.clone() if columns else bias.index_select(0, indices))
    return pruned


class SelfAttention(Attention):
    """Attention within one text: queries, keys and values are projections of the same tokens."""

    def __init__(self, shape: Shape, layer: int = 0) -> None:
        super().__init__(shape, layer)
        has_own_projections = shape.relative == "disentangled" and not shape.share_projections
        self.position_prefix = "position_" if has_own_projections else ""
        inner = shape.heads * shape.head_width
        if has_own_projections and "c2p" in shape.relative_terms:
            self.position_k = Linear(shape.width, inner)
        if has_own_projections and "p2c" in shape.relative_terms:
            self.position_q = Linear(shape.width, inner)

    def project_distances(self, part: str, rows: Tensor) -> Tensor:
        """Project DeBERTa's distance embeddings to queries ("q") or keys ("k"): (1, heads, ...)."""
        return self.split_heads(self.get_submodule(self.position_prefix + part)(rows)[None])

    def forward(self, x: Tensor, inputs: AttentionInputs, layer: int) -> Tensor:
        relative, pad, is_local = inputs.relative, inputs.input_layout.pad, self.is_local
        queries = inputs.query_layout.pad(self.q(inputs.select_queries(x)))
        q = self.split_heads(queries)  # (batch, heads, length, head_width)
        k, v = self.split_heads(pad(self.k(x))), self.split_heads(pad(self.v(x)))
        q = relative.rotate(q, inputs.query_positions, is_local)
        k = relative.rotate(k, inputs.input_positions, is_local)
        k, v = inputs.cache.extend(layer, k, v)
        shared_bias = self.select_heads(inputs.local_bias if is_local else inputs.global_bias)
        bias = relative.add_layer_bias(shared_bias, q, k, self, inputs)
        context = inputs.kernel(q, k, v, bias, self.scale, self.dropout, AttentionId(inputs.part, layer))
        return self.merge_heads(self.scale_heads(context, inputs.head_scale, layer), inputs.query_layout)


class CrossAttention(Attention):
    """Attention to the source: queries come from the decoder, keys and values from the encoder's last layer."""

    def project_memory(self, inputs: AttentionInputs) -> tuple[Tensor, Tensor]:
        """Project the encoder's last hidden state to keys and values of this layer."""
        pad = inputs.memory_layout.pad  # type: ignore[union-attr]
        return self.split_heads(pad(self.k(inputs.memory))), self.split_heads(pad(self.v(inputs.memory)))

    def forward(self, x: Tensor, inputs: AttentionInputs, layer: int) -> Tensor:
        q = self.split_heads(inputs.query_layout.pad(self.q(x)))
        k, v = inputs.cache.get_or_compute(layer, lambda: self.project_memory(inputs))
        context = inputs.kernel(q, k, v, inputs.memory_bias, self.scale, self.dropout, AttentionId("cross", layer))
        return self.merge_heads(self.scale_heads(context, inputs.cross_scale, layer), inputs.query_layout)


def attention(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> tuple[Tensor, Tensor]:
    """softmax(Q K^T / sqrt(d)) V for plain matrices: return contexts and probabilities."""
    recorder = Recorder()
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    context = recorder(q[None, None], k[None, None], v[None, None], None, scale, 0.0, AttentionId("plain", 0))
    return context[0, 0], recorder.steps[0].probs[0, 0]
