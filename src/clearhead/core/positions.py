"""Where a word stands: vectors added to the words, and schemes that act on queries, keys or scores.

Attention alone is a set model: permute the words and the outputs are permuted. These schemes break the symmetry.
Each has hooks that do nothing unless the scheme overrides them, so that no forward asks which scheme it has.
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
    """Adds nothing to the words."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor, ids: Tensor, places: Tensor, layout: Layout) -> Tensor:
        """Words in, words with their positions out."""
        return x


class LearnedPositions(NoPositions):
    """A vector per position, learned like a word's."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        rows = (shape.max_length or 0) + shape.position_offset
        self.table = EmbeddingTable(rows, shape.token_width)

    def forward(self, x: Tensor, ids: Tensor, places: Tensor, layout: Layout) -> Tensor:
        return x + self.table(places)


class PaddingAwarePositions(LearnedPositions):
    """RoBERTa's numbering: padding does not count, and the first word's number is pad + 1."""

    def forward(self, x: Tensor, ids: Tensor, places: Tensor, layout: Layout) -> Tensor:
        pad = self.shape.position_offset - 1
        real = layout.pad(ids.ne(pad).long())
        return x + self.table(layout.gather(real.cumsum(1) * real + pad))


def sinusoids(places: Tensor, width: int, *, halves: bool) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(the same); interleaved, or in two halves."""
    even = torch.arange(0, width, 2, device=places.device, dtype=torch.float64)
    # double: equal to the tables that files were made with
    angles = places[..., None].double() / 10000.0 ** (even / width)
    sin, cos = angles.sin(), angles.cos()[..., : width // 2]
    if halves:
        return torch.cat([sin, cos], -1)
    table = sin.new_empty(*places.shape, width)
    table[..., 0::2], table[..., 1::2] = sin, cos
    return table


class SinusoidalPositions(NoPositions):
    """The 2017 code: each position a fixed pattern of waves, nearer positions closer."""

    halves = False

    def forward(self, x: Tensor, ids: Tensor, places: Tensor, layout: Layout) -> Tensor:
        return x + sinusoids(places, self.shape.width, halves=self.halves).to(x.dtype)


class SplitSinusoidalPositions(SinusoidalPositions):
    """The same waves with all sines before all cosines, as tensor2tensor and Marian lay them."""

    halves = True


class NoRelativeBias(nn.Module):
    """Scores that know nothing of distance."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def shared_bias(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """A bias on the scores that all layers share, from the places of queries and keys: (1|batch, heads, q, k)."""
        return None

    def rotate(self, x: Tensor, places: Tensor, local: bool) -> Tensor:
        """Queries or keys turned by their place: (batch, heads, length, head_width)."""
        return x

    def add_layer_bias(self, bias: Tensor | None, q: Tensor, k: Tensor, at: SelfAttention, given: Any) -> Tensor | None:
        """A bias that depends on this layer's queries and keys, added to the one given."""
        return bias


class BucketBias(NoRelativeBias):
    """T5's and MPNet's distances: exact when near, in logarithmic buckets when far; one number per bucket and head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.table = EmbeddingTable(shape.bucket_rows or shape.buckets, shape.heads)

    def shared_bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        gap = keys[:, None, :] - queries[:, :, None]  # (1|batch, q, k), positive to the right
        bucket = self.bucket(gap)
        return self.table(bucket).permute(0, 3, 1, 2)  # (1|batch, heads, q, k)

    def bucket(self, gap: Tensor) -> Tensor:
        """Which bucket a distance falls in; a causal model has no use for those to the right."""
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
    """Queries and keys are turned by an angle that grows with the place, so that their product knows the distance."""

    def rotate(self, x: Tensor, places: Tensor, local: bool) -> Tensor:
        width = x.shape[-1]
        base = self.shape.local_rope_theta if local else self.shape.rope_theta
        even = torch.arange(0, width, 2, device=x.device, dtype=torch.float32)
        angles = places[..., None].float() * (1.0 / base ** (even / width))  # (1|batch, length, width / 2)
        angles = torch.cat([angles, angles], -1)[:, None]
        half = torch.cat([-x[..., width // 2 :], x[..., : width // 2]], -1)
        return (x * angles.cos() + half * angles.sin()).to(x.dtype)  # in float32 or wider, as the angles are


class DisentangledBias(NoRelativeBias):
    """DeBERTa: content looks at distance (c2p) and distance at content (p2c), each a product of its own."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.table = EmbeddingTable(2 * shape.relative_span, shape.width)
        self.norm: nn.Module = LayerNorm(shape.width, shape.eps) if shape.relative_norm else nn.Identity()
        self.dropout = nn.Dropout(shape.dropouts.relative_positions)

    def index(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The row of the relative table for each query and key: (1|batch, 1, q, k)."""
        gap = queries[:, :, None] - keys[:, None, :]
        if self.shape.log_buckets:
            gap = self.bucket(gap)
        span = self.shape.relative_span
        return (gap + span).clamp(0, 2 * span - 1)[:, None]

    def bucket(self, gap: Tensor) -> Tensor:
        """Near distances keep their own row, far ones share rows on a logarithmic scale."""
        middle = self.shape.relative_span // 2
        near = (gap < middle) & (gap > -middle)
        distance = torch.where(near, torch.full_like(gap, middle - 1), gap.abs())
        reach = torch.log(torch.tensor((self.shape.relative_max_distance - 1) / middle))
        far = torch.ceil(torch.log(distance / middle) / reach * (middle - 1)) + middle
        return torch.where(distance <= middle, gap, (far * gap.sign()).long())

    def add_layer_bias(self, bias: Tensor | None, q: Tensor, k: Tensor, at: SelfAttention, given: Any) -> Tensor | None:
        rows = self.dropout(self.norm(self.table.weight))
        index = self.index(given.places, given.key_places).expand(q.shape[0], q.shape[1], -1, -1)
        if "c2p" in self.shape.relative_terms:
            keys = at.project_distances("k", rows)  # (1, heads, 2 span, head_width)
            score = (q @ keys.transpose(-1, -2)).gather(-1, index) * at.scale
            bias = score if bias is None else bias + score
        if "p2c" in self.shape.relative_terms:
            queries = at.project_distances("q", rows)
            turned = (k @ queries.transpose(-1, -2)).gather(-1, index.transpose(-1, -2))
            score = turned.transpose(-1, -2) * at.scale
            bias = score if bias is None else bias + score
        return bias


def build_positions(shape: Shape) -> NoPositions:
    """The scheme that is added to the words."""
    if shape.positions == "learned" and shape.position_offset:
        return PaddingAwarePositions(shape)
    kinds = {
        "none": NoPositions,
        "learned": LearnedPositions,
        "sinusoidal": SinusoidalPositions,
        "sinusoidal_halves": SplitSinusoidalPositions,
    }
    return kinds[shape.positions](shape)


def build_relative_scheme(shape: Shape) -> NoRelativeBias:
    """The scheme that acts on queries, keys or scores."""
    kinds = {"none": NoRelativeBias, "buckets": BucketBias, "rotary": RotaryPositions, "disentangled": DisentangledBias}
    return kinds[shape.relative](shape)
