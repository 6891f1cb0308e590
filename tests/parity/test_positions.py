"""Position encodings at long distances: relative buckets, sinusoids and rotary embeddings."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch

from clearhead.core.positions import BucketBias, DisentangledBias, RotaryPositions, sinusoids
from clearhead.shape import Shape
from tests.parity_models import import_transformers

MAX_GAP = 3000


def make_shape(**changes: Any) -> Shape:
    fields: dict[str, Any] = {
        "vocab_size": 9,
        "width": 8,
        "layers": 1,
        "heads": 2,
        "head_width": 4,
        "feed_forward_width": 8,
    }
    return Shape(**(fields | changes))


def import_modeling(family: str) -> Any:
    import_transformers()
    return import_module(f"transformers.models.{family}.modeling_{family}")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (32, 512), (8, 20), (64, 1000), (16, 17), (7, 40)])
def test_t5_buckets(buckets: int, max_distance: int, causal: bool) -> None:
    distance = torch.arange(-MAX_GAP, MAX_GAP)  # key minus query
    theirs = import_modeling("t5").T5Attention._relative_position_bucket(distance, not causal, buckets, max_distance)
    ours = BucketBias(make_shape(buckets=buckets, bucket_max_distance=max_distance, causal=causal)).bucket(distance)
    assert torch.equal(ours, theirs)
    assert len(ours.unique()) >= buckets - 2  # the control: the buckets differ


def test_mpnet_buckets() -> None:
    distance = torch.arange(-MAX_GAP, MAX_GAP)
    theirs = import_modeling("mpnet").MPNetEncoder.relative_position_bucket(distance, num_buckets=32)
    assert torch.equal(BucketBias(make_shape(bucket_rows=40)).bucket(distance), theirs)


@pytest.mark.parametrize(("buckets", "max_distance"), [(256, 512), (4, 40), (6, 9), (16, 2000)])
def test_deberta_buckets(buckets: int, max_distance: int) -> None:
    theirs = import_modeling("deberta_v2")
    states = torch.zeros(1, 600, 4)
    expected = theirs.build_relative_position(states, states, bucket_size=buckets, max_position=max_distance)
    positions = torch.arange(600)[None]
    ours = DisentangledBias(make_shape(relative_span=buckets, relative_max_distance=max_distance, log_buckets=True))
    index = ours.index(positions, positions)[:, 0]
    assert torch.equal(index, (expected.long() + buckets).clamp(0, 2 * buckets - 1))
    assert len(index.unique()) > buckets


@pytest.mark.parametrize("width", [512, 24, 15, 7])
def test_marian_sinusoids(width: int) -> None:
    theirs = import_modeling("marian").MarianSinusoidalPositionalEmbedding(600, width)
    expected = theirs.create_weight()
    assert torch.equal(sinusoids(torch.arange(600), width, halves=True).float(), expected)


@pytest.mark.parametrize("is_local", [False, True])
def test_modernbert_rotary(is_local: bool) -> None:
    """Positions up to 8,000; local and global layers have their own base."""
    theirs = import_modeling("modernbert")
    config = import_transformers().ModernBertConfig(hidden_size=128, num_attention_heads=2)
    layer_type = "sliding_attention" if is_local else "full_attention"
    positions = torch.tensor([[0, 1, 2, 100, 1023, 4096, 7999]])
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 2, positions.shape[1], 64, generator=generator)
    cos, sin = theirs.ModernBertRotaryEmbedding(config)(q, positions, layer_type)
    expected = theirs.apply_rotary_pos_emb(q, k, cos, sin)
    rotary = RotaryPositions(make_shape(rope_theta=160_000.0, local_rope_theta=10_000.0))
    for x, y in zip((q, k), expected, strict=True):
        torch.testing.assert_close(rotary.rotate(x, positions, is_local), y, rtol=0, atol=1e-5)
        assert (rotary.rotate(x, positions, not is_local) - y).abs().max() > 1e-2


def test_rotated_products_depend_only_on_the_distance() -> None:
    rotary = RotaryPositions(make_shape())
    q, k = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(0))

    def product(a: int, b: int) -> float:
        rotated = rotary.rotate(q, torch.tensor([[a]]), False), rotary.rotate(k, torch.tensor([[b]]), False)
        return float((rotated[0] * rotated[1]).sum())

    assert product(3, 7) == pytest.approx(product(103, 107), abs=1e-4)
    assert product(3, 7) != pytest.approx(product(3, 8), abs=1e-3)
