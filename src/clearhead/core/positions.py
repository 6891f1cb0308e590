"""Position encodings: vectors added to the embeddings, and schemes that act on queries, keys or scores.

Attention by itself treats a text as a set: permuting the tokens only permutes the outputs. Position encodings break
this symmetry. Each scheme overrides hooks that do nothing by default, so that no `forward` branches on the scheme.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from clearhead.core.layers import EmbeddingTable, LayerNorm
from clearhead.core.layout import Layout
from clearhead.shape import Shape

if TYPE_CHECKING:
    from clearhead.core.attention import SelfAttention


class NoPositions(nn.Module):
    """Null object: adds nothing to the embeddings."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor, ids: Tensor, positions: Tensor, layout: Layout) -> Tensor:
        """Add the position encoding to the embeddings."""
        return x


class LearnedPositions(NoPositions):
    """A learned vector per position."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        rows = (shape.max_length or 0) + shape.position_offset
        self.table = EmbeddingTable(rows, shape.token_width)

    def forward(self, x: Tensor, ids: Tensor, positions: Tensor, layout: Layout) -> Tensor:
        return x + self.table(positions)


class PaddingAwarePositions(LearnedPositions):
    """RoBERTa's numbering: padding tokens have no position, and the first token has position pad_id + 1."""

    def forward(self, x: Tensor, ids: Tensor, positions: Tensor, layout: Layout) -> Tensor:
        pad = self.shape.position_offset - 1
        real = layout.pad(ids.ne(pad).long())
        return x + self.table(layout.pack(real.cumsum(1) * real + pad))


def sinusoids(positions: Tensor, width: int, *, halves: bool) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d)); interleaved or in two halves."""
    even_dims = torch.arange(0, width, 2, device=positions.device, dtype=torch.float64)
    # float64, to equal the tables stored in checkpoints
    angles = positions[..., None].double() / 10000.0 ** (even_dims / width)
    sin, cos = angles.sin(), angles.cos()[..., : width // 2]
    if halves:
        return torch.cat([sin, cos], -1)
    table = sin.new_empty(*positions.shape, width)
    table[..., 0::2], table[..., 1::2] = sin, cos
    return table


class SinusoidalPositions(NoPositions):
    """The original Transformer: a fixed pattern of waves per position; nearby positions have similar patterns."""

    halves = False

    def forward(self, x: Tensor, ids: Tensor, positions: Tensor, layout: Layout) -> Tensor:
        return x + sinusoids(positions, self.shape.width, halves=self.halves).to(x.dtype)


class SplitSinusoidalPositions(SinusoidalPositions):
    """The same waves with all sines before all cosines, as in tensor2tensor and Marian."""

    halves = True


class NoRelativeBias(nn.Module):
    """Null object: scores do not depend on distance."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def shared_bias(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """Compute the bias on the scores that all layers share from query and key positions: (1|batch, heads, q, k)."""
        return None

    def rotate(self, x: Tensor, positions: Tensor, is_local: bool) -> Tensor:
        """Rotate queries or keys by their positions: (batch, heads, length, head_width)."""
        return x

    def add_layer_bias(
        self, bias: Tensor | None, q: Tensor, k: Tensor, attention: SelfAttention, inputs: Any
    ) -> Tensor | None:
        """Add a bias that depends on the queries and keys of this layer."""
        return bias


class BucketBias(NoRelativeBias):
    """T5 and MPNet: a learned bias per distance bucket and head; buckets are exact when near, logarithmic when far."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.table = EmbeddingTable(shape.bucket_rows or shape.buckets, shape.heads)

    def shared_bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        gap = keys[:, None, :] - queries[:, :, None]  # (1|batch, q, k), positive to the right
        bucket = self.bucket(gap)
        return self.table(bucket).permute(0, 3, 1, 2)  # (1|batch, heads, q, k)

    def bucket(self, gap: Tensor) -> Tensor:
        """Map distances to buckets; a causal model has none for keys to the right."""
        buckets, base = self.shape.buckets, torch.zeros_like(gap)
        if self.shape.causal:
            distance = (-gap).clamp(min=0)
        else:
            buckets //= 2
            base = (gap > 0).long() * buckets
            distance = gap.abs()
        exact = buckets // 2
        ratio = torch.log(distance.float().clamp(min=1) / exact) / math.log(self.shape.bucket_max_distance / exact)
        far = exact + (ratio * (buckets - exact)).long()
        return base + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))


class RotaryPositions(NoRelativeBias):
    """RoPE: queries and keys are rotated by an angle proportional to position, so products depend on the distance."""

    def rotate(self, x: Tensor, positions: Tensor, is_local: bool) -> Tensor:
        width = x.shape[-1]
        base = self.shape.local_rope_theta if is_local else self.shape.rope_theta
        even_dims = torch.arange(0, width, 2, device=x.device, dtype=torch.float32)
        angles = positions[..., None].float() * (1.0 / base ** (even_dims / width))  # (1|batch, length, width / 2)
        angles = torch.cat([angles, angles], -1)[:, None]
        half = torch.cat([-x[..., width // 2 :], x[..., : width // 2]], -1)
        return (x * angles.cos() + half * angles.sin()).to(x.dtype)  # computed in float32 or wider, like the angles


class DisentangledBias(NoRelativeBias):
    """DeBERTa: separate products for content to position (c2p) and position to content (p2c)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.table = EmbeddingTable(2 * shape.relative_span, shape.width)
        self.norm: nn.Module = LayerNorm(shape.width, shape.eps) if shape.relative_norm else nn.Identity()
        self.dropout = nn.Dropout(shape.dropouts.relative_positions)

    def index(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Look up the row of the relative table for each query and key: (1|batch, 1, q, k)."""
        gap = queries[:, :, None] - keys[:, None, :]
        if self.shape.log_buckets:
            gap = self.bucket(gap)
        span = self.shape.relative_span
        return (gap + span).clamp(0, 2 * span - 1)[:, None]

    def bucket(self, gap: Tensor) -> Tensor:
        """Map distances to rows: near ones have their own row, far ones share rows on a logarithmic scale."""
        middle = self.shape.relative_span // 2
        near = (gap < middle) & (gap > -middle)
        distance = torch.where(near, torch.full_like(gap, middle - 1), gap.abs())
        reach = torch.log(torch.tensor((self.shape.relative_max_distance - 1) / middle))
        far = torch.ceil(torch.log(distance / middle) / reach * (middle - 1)) + middle
        return torch.where(distance <= middle, gap, (far * gap.sign()).long())

    def add_layer_bias(
        self, bias: Tensor | None, q: Tensor, k: Tensor, attention: SelfAttention, inputs: Any
    ) -> Tensor | None:
        rows = self.dropout(self.norm(self.table.weight))
        index = self.index(inputs.query_positions, inputs.key_positions).expand(q.shape[0], q.shape[1], -1, -1)
        if "c2p" in self.shape.relative_terms:
            keys = attention.project_distances("k", rows)  # (1, heads, 2 span, head_width)
            score = (q @ keys.transpose(-1, -2)).gather(-1, index) * attention.scale
            bias = score if bias is None else bias + score
        if "p2c" in self.shape.relative_terms:
            queries = attention.project_distances("q", rows)
            scores = (k @ queries.transpose(-1, -2)).gather(-1, index.transpose(-1, -2))
            score = scores.transpose(-1, -2) * attention.scale
            bias = score if bias is None else bias + score
        return bias


def build_positions(shape: Shape) -> NoPositions:
    """Build the scheme that is added to the embeddings."""
    if shape.positions == "learned" and shape.position_offset:
        return PaddingAwarePositions(shape)
    classes = {
        "none": NoPositions,
        "learned": LearnedPositions,
        "sinusoidal": SinusoidalPositions,
        "sinusoidal_halves": SplitSinusoidalPositions,
    }
    return classes[shape.positions](shape)


def build_relative_scheme(shape: Shape) -> NoRelativeBias:
    """Build the scheme that acts on queries, keys or scores."""
    classes = {
        "none": NoRelativeBias,
        "buckets": BucketBias,
        "rotary": RotaryPositions,
        "disentangled": DisentangledBias,
    }
    return classes[shape.relative](shape)
