"""Dropout from random bits has the requested rate, keeps the mean, and replaces every torch dropout."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import clearhead
from clearhead.core.attention import AttentionId, fused_attention
from clearhead.training.dropout import FastDropout, dropout_attention, make_dropout_mask, use_fast_dropout
from tests.family_configs import FIXED_CONFIGS

FIRST_LAYER = AttentionId("encoder", 0)
TINY_CONFIGS = {family: FIXED_CONFIGS[family] for family in ("bert", "deberta-v2", "gpt2")}


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("size", [(400, 1001), (3,), (1, 7, 5)])
def test_dropout_has_the_requested_rate(rate: float, size: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    masks = torch.stack([make_dropout_mask(torch.empty(size), rate) for _ in range(20 if len(size) == 2 else 4000)])
    is_dropped = masks == 0
    assert set(masks.unique().tolist()) == {0.0, float(torch.tensor(65536 / (65536 - round(rate * 65536))))}
    standard_error = (rate * (1 - rate) / is_dropped.numel()) ** 0.5
    assert abs(float(is_dropped.double().mean()) - rate) < 5 * standard_error + 1e-5  # plus the rounding of the rate
    assert float(masks.double().mean()) == pytest.approx(1.0, abs=6 * standard_error / (1 - rate))
    if len(size) == 2:  # neighbors are uncorrelated, also those that share a 64-bit draw
        for gap in (1, 2, 3, 4, 1001):
            centered = is_dropped[0].flatten().double() - rate
            correlation = float((centered[gap:] * centered[:-gap]).mean()) / (rate * (1 - rate))
            assert abs(correlation) < 5 / len(centered) ** 0.5


def test_seeds_are_respected_and_gradients_use_the_same_mask() -> None:
    dropout, x = FastDropout(0.3), torch.randn(50, 33, requires_grad=True)
    torch.manual_seed(5)
    output = dropout(x)
    output.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x, output)
    torch.manual_seed(5)
    assert torch.equal(dropout(x), output)
    assert not torch.equal(dropout(x), output)
    assert torch.equal(dropout.eval()(x), x)
    assert torch.equal(FastDropout(0.0)(x), x)
    assert not FastDropout(1.0)(x).any()


def test_attention_keeps_its_mean() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 7, 8)
    bias = torch.zeros(2, 1, 1, 7).masked_fill(torch.arange(7) > 4, -1e9)
    without_dropout = fused_attention(q, k, v, bias, 0.3, 0.0, FIRST_LAYER)
    assert torch.equal(dropout_attention(q, k, v, bias, 0.3, 0.0, FIRST_LAYER), without_dropout)
    outputs = torch.stack([dropout_attention(q, k, v, bias, 0.3, 0.2, FIRST_LAYER) for _ in range(3000)])
    deviations = (outputs.mean(0) - without_dropout).abs() / (outputs.std(0) / 3000**0.5)
    assert float(deviations.mean()) < 1.0  # the mean absolute value of a standard normal is 0.8
    # the standard deviation equals that of torch's kernel
    torch_outputs = torch.stack([fused_attention(q, k, v, bias, 0.3, 0.2, FIRST_LAYER) for _ in range(3000)])
    assert float((outputs.std(0) / torch_outputs.std(0)).log().abs().mean()) < 0.05


@pytest.mark.parametrize("family", TINY_CONFIGS)
def test_every_dropout_is_replaced_with_its_rate(family: str) -> None:
    network = clearhead.create(family, config=TINY_CONFIGS[family], head="classify").module

    def read_rates() -> dict[str, float]:
        return {name: module.p for name, module in network.named_modules() if isinstance(module, nn.Dropout)}

    rates_before = read_rates()
    use_fast_dropout(network)
    assert read_rates() == rates_before
    dropouts = [module for module in network.modules() if isinstance(module, nn.Dropout)]
    assert all(isinstance(module, FastDropout) for module in dropouts)
    assert not any(module.training for module in dropouts)  # the network's mode is kept
