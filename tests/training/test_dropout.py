"""Dropout by random bits drops as often as asked, keeps the mean, and stands wherever torch's own stood."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import clearhead
from clearhead.core.attention import Where, fused
from clearhead.training.dropout import FastDropout, dropout_attention, dropout_mask, use_fast_dropout
from tests.tiny import FIXED

HERE = Where("encoder", 0)
SMALL = {family: FIXED[family] for family in ("bert", "deberta-v2", "gpt2")}


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("size", [(400, 1001), (3,), (1, 7, 5)])
def test_as_often_as_asked(rate: float, size: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    draws = torch.stack([dropout_mask(torch.empty(size), rate) for _ in range(20 if len(size) == 2 else 4000)])
    dropped = draws == 0
    assert set(draws.unique().tolist()) == {0.0, float(torch.tensor(65536 / (65536 - round(rate * 65536))))}
    error = (rate * (1 - rate) / dropped.numel()) ** 0.5
    assert abs(float(dropped.double().mean()) - rate) < 5 * error + 1e-5  # and the rate's own rounding
    assert float(draws.double().mean()) == pytest.approx(1.0, abs=6 * error / (1 - rate))
    if len(size) == 2:  # neighbours do not hang together, nor do the four that share a draw
        for gap in (1, 2, 3, 4, 1001):
            flat = dropped[0].flatten().double() - rate
            together = float((flat[gap:] * flat[:-gap]).mean()) / (rate * (1 - rate))
            assert abs(together) < 5 / len(flat) ** 0.5


def test_the_seed_decides_and_gradients_take_the_same_way() -> None:
    drop, x = FastDropout(0.3), torch.randn(50, 33, requires_grad=True)
    torch.manual_seed(5)
    first = drop(x)
    first.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x, first)
    torch.manual_seed(5)
    assert torch.equal(drop(x), first)
    assert not torch.equal(drop(x), first)
    assert torch.equal(drop.eval()(x), x)
    assert torch.equal(FastDropout(0.0)(x), x)
    assert not FastDropout(1.0)(x).any()


def test_attention_keeps_its_mean() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 7, 8)
    bias = torch.zeros(2, 1, 1, 7).masked_fill(torch.arange(7) > 4, -1e9)
    plain = fused(q, k, v, bias, 0.3, 0.0, HERE)
    assert torch.equal(dropout_attention(q, k, v, bias, 0.3, 0.0, HERE), plain)
    draws = torch.stack([dropout_attention(q, k, v, bias, 0.3, 0.2, HERE) for _ in range(3000)])
    away = (draws.mean(0) - plain).abs() / (draws.std(0) / 3000**0.5)
    assert float(away.mean()) < 1.0  # a standard normal's mean size is 0.8
    # as often as torch's own kernel: the spread is that of its draws
    others = torch.stack([fused(q, k, v, bias, 0.3, 0.2, HERE) for _ in range(3000)])
    assert float((draws.std(0) / others.std(0)).log().abs().mean()) < 0.05


@pytest.mark.parametrize("family", SMALL)
def test_every_dropout_is_exchanged_with_its_rate(family: str) -> None:
    network = clearhead.create(family, config=SMALL[family], head="classify").module

    def rates() -> dict[str, float]:
        return {name: part.p for name, part in network.named_modules() if isinstance(part, nn.Dropout)}

    before = rates()
    use_fast_dropout(network)
    assert rates() == before
    found = [part for part in network.modules() if isinstance(part, nn.Dropout)]
    assert all(isinstance(part, FastDropout) for part in found)
    assert not any(part.training for part in found)  # as the network was
