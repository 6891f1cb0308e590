"""Positions far beyond the short texts of the other tests: buckets, waves and turns, distance by distance."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch

from clearhead.core.positions import BucketBias, DisentangledBias, RotaryPositions, sinusoids
from clearhead.shape import Shape
from tests.parity_models import import_transformers

FAR = 3000


def shape(**changes: Any) -> Shape:
    fields: dict[str, Any] = {
        "vocab_size": 9,
        "width": 8,
        "layers": 1,
        "heads": 2,
        "head_width": 4,
        "feed_forward_width": 8,
    }
    return Shape(**(fields | changes))


def modelling(family: str) -> Any:
    import_transformers()
    return import_module(f"transformers.models.{family}.modeling_{family}")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (32, 512), (8, 20), (64, 1000), (16, 17), (7, 40)])
def test_t5_buckets(buckets: int, reach: int, causal: bool) -> None:
    gap = torch.arange(-FAR, FAR)  # key minus query
    theirs = modelling("t5").T5Attention._relative_position_bucket(gap, not causal, buckets, reach)
    ours = BucketBias(shape(buckets=buckets, bucket_max_distance=reach, causal=causal)).bucket(gap)
    assert torch.equal(ours, theirs)
    assert len(ours.unique()) >= buckets - 2  # the control: they are not all one


def test_mpnet_buckets() -> None:
    gap = torch.arange(-FAR, FAR)
    theirs = modelling("mpnet").MPNetEncoder.relative_position_bucket(gap, num_buckets=32)
    assert torch.equal(BucketBias(shape(bucket_rows=40)).bucket(gap), theirs)


@pytest.mark.parametrize(("buckets", "reach"), [(256, 512), (4, 40), (6, 9), (16, 2000)])
def test_deberta_buckets(buckets: int, reach: int) -> None:
    theirs = modelling("deberta_v2")
    words = torch.zeros(1, 600, 4)
    expected = theirs.build_relative_position(words, words, bucket_size=buckets, max_position=reach)
    places = torch.arange(600)[None]
    ours = DisentangledBias(shape(relative_span=buckets, relative_max_distance=reach, log_buckets=True))
    index = ours.index(places, places)[:, 0]
    assert torch.equal(index, (expected.long() + buckets).clamp(0, 2 * buckets - 1))
    assert len(index.unique()) > buckets


@pytest.mark.parametrize("width", [512, 24, 15, 7])
def test_marian_waves(width: int) -> None:
    theirs = modelling("marian").MarianSinusoidalPositionalEmbedding(600, width)
    expected = theirs.create_weight()
    assert torch.equal(sinusoids(torch.arange(600), width, halves=True).float(), expected)


@pytest.mark.parametrize("local", [False, True])
def test_modernbert_turns(local: bool) -> None:
    """Places up to 8,000, each kind of layer with its own base."""
    theirs = modelling("modernbert")
    config = import_transformers().ModernBertConfig(hidden_size=128, num_attention_heads=2)
    kind = "sliding_attention" if local else "full_attention"
    places = torch.tensor([[0, 1, 2, 100, 1023, 4096, 7999]])
    draws = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 2, places.shape[1], 64, generator=draws)
    cos, sin = theirs.ModernBertRotaryEmbedding(config)(q, places, kind)
    expected = theirs.apply_rotary_pos_emb(q, k, cos, sin)
    turn = RotaryPositions(shape(rope_theta=160_000.0, local_rope_theta=10_000.0))
    for x, y in zip((q, k), expected, strict=True):
        torch.testing.assert_close(turn.rotate(x, places, local), y, rtol=0, atol=1e-5)
        assert (turn.rotate(x, places, not local) - y).abs().max() > 1e-2


def test_turned_products_know_only_the_distance() -> None:
    turn = RotaryPositions(shape())
    q, k = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(0))

    def product(a: int, b: int) -> float:
        turned = turn.rotate(q, torch.tensor([[a]]), False), turn.rotate(k, torch.tensor([[b]]), False)
        return float((turned[0] * turned[1]).sum())

    assert product(3, 7) == pytest.approx(product(103, 107), abs=1e-4)
    assert product(3, 7) != pytest.approx(product(3, 8), abs=1e-3)
