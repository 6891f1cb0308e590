"""Attention heads are scaled, silenced and pruned: changed weights, scales and pruning agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.core.models import Network
from clearhead.errors import InputError
from tests.core.networks import (
    FAMILY_NAMES,
    HEAD,
    PARTS,
    assert_close,
    batch_of,
    model_of,
    network_of,
    real_outputs,
    tensors_of,
)
from tests.family_configs import SEQ2SEQ_FAMILIES
from tests.parity_models import TokenBatch, compute_reference_outputs, load_in_transformers

TITLES = {
    "bert": "BertForMaskedLM",
    "roberta": "RobertaForMaskedLM",
    "xlm-roberta": "XLMRobertaForMaskedLM",
    "distilbert": "DistilBertForMaskedLM",
    "electra": "ElectraForMaskedLM",
    "albert": "AlbertForMaskedLM",
    "mpnet": "MPNetForMaskedLM",
    "deberta-v2": "DebertaV2ForMaskedLM",
    "modernbert": "ModernBertForMaskedLM",
    "openai-gpt": "OpenAIGPTLMHeadModel",
    "gpt2": "GPT2LMHeadModel",
    "t5": "T5ForConditionalGeneration",
    "marian": "MarianMTModel",
}
every_part = pytest.mark.parametrize(("family", "part"), PARTS)
every_family = pytest.mark.parametrize("family", FAMILY_NAMES)


def sizes(network: Network, part: str) -> tuple[int, int]:
    shape = network.shape.stack if part == "encoder" else network.shape.top
    return shape.layers, shape.heads


def run(network: Network, batch: TokenBatch, **options: Any) -> list[torch.Tensor]:
    with torch.no_grad():
        return real_outputs(network(**tensors_of(batch), **options), batch)


def order_of(network: Network, part: str) -> tuple[int, ...]:
    """Return the block of each layer."""
    return (network.shape.stack if part == "encoder" else network.shape.top).block_of_layer


@pytest.mark.thin(3)
@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, -2.0])
@every_part
def test_scaled_by_hand(family: str, part: str, factor: float) -> None:
    """Scaling a head equals scaling its columns of W_O."""
    network, batch = network_of(family), batch_of(family)
    layers, heads = sizes(network, part)
    block, head = len(network.attentions(part)) - 1, heads - 1
    scale = torch.ones(layers, heads)
    for layer, used in enumerate(order_of(network, part)):
        if used == block:
            scale[layer, head] = factor
    before = run(network, batch)
    scaled = run(network, batch, head_scale={part: scale})
    attention = network.attentions(part)[block]
    columns = slice(head * attention.head_width, (head + 1) * attention.head_width)
    with torch.no_grad():
        attention.out.weight[:, columns] *= factor
    assert_close(scaled, run(network, batch))
    moved = max((a - b).abs().max().item() for a, b in zip(before, scaled, strict=True))
    assert moved == 0 if factor == 1 else moved > 1e-4


@every_part
def test_gradient_of_the_scale(family: str, part: str) -> None:
    """The gradient of a head scale equals a finite difference."""
    network, batch = network_of(family).double(), batch_of(family)
    layers, heads = sizes(network, part)
    draws = torch.Generator().manual_seed(0)
    weights = [torch.randn(x.shape, generator=draws, dtype=torch.float64) for x in run(network, batch)]

    def score(scale: torch.Tensor) -> torch.Tensor:
        outputs_list = real_outputs(network(**tensors_of(batch), head_scale={part: scale}), batch)
        return sum((x * w).sum() for x, w in zip(outputs_list, weights, strict=True))  # type: ignore[return-value]

    scale = torch.rand(layers, heads, generator=draws, dtype=torch.float64).requires_grad_()
    (grad,) = torch.autograd.grad(score(scale), scale)
    assert (grad != 0).all()
    for layer, head in ((0, 0), (layers - 1, heads - 1)):
        step = torch.zeros(layers, heads, dtype=torch.float64)
        step[layer, head] = 1e-5
        with torch.no_grad():
            slope = (score(scale + step) - score(scale - step)) / 2e-5
        torch.testing.assert_close(grad[layer, head], slope, rtol=1e-5, atol=1e-6)


@every_part
def test_pruned_is_scaled_by_zero(family: str, part: str) -> None:
    network, batch = network_of(family), batch_of(family)
    layers, heads = sizes(network, part)
    pruned = {0: {0}} if len(network.attentions(part)) == 1 else {0: {heads - 1}, 1: {0}}
    scale = torch.ones(layers, heads)
    for layer, block in enumerate(order_of(network, part)):
        for head in pruned.get(block, ()):
            scale[layer, head] = 0
    expected = run(network, batch, head_scale={part: scale})
    full = sum(p.numel() for p in network.parameters())
    network.prune(pruned, part)
    assert_close(run(network, batch), expected)
    assert sum(p.numel() for p in network.parameters()) < full
    # the heads that are left keep their numbers
    for attention in network.attentions(part):
        assert set(attention.kept_heads) <= set(range(attention.total_heads))
    half = torch.full((layers, heads), 0.5)
    assert_close(run(network, batch, head_scale={part: half}), run(network, batch, head_scale={part: half * scale}))


@every_part
def test_gradients_after_pruning(family: str, part: str) -> None:
    network, batch = network_of(family), batch_of(family)
    network.prune({0: {1}}, part)
    torch.stack([(x**2).mean() for x in real_outputs(network(**tensors_of(batch)), batch)]).sum().backward()
    flat = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    # a bias of all keys alike moves no probability, so its gradient is zero up to rounding
    assert not [name for name in flat if not name.endswith("k.bias")]
    for attention in network.attentions(part)[:1]:
        assert all(p.requires_grad for p in attention.parameters())


@every_family
def test_pruned_twice(family: str) -> None:
    """Heads keep their original indices: pruning {0} and then {2} equals pruning {0, 2}."""
    first, second, batch = network_of(family), network_of(family), batch_of(family)
    first.prune({0: {0}})
    first.prune({0: {2}})
    second.prune({0: {0, 2}})
    assert first.attentions("encoder")[0].kept_heads == second.attentions("encoder")[0].kept_heads == (1,)
    assert_close(run(first, batch), run(second, batch), 0)


@every_family
def test_pruned_and_saved(family: str, tmp_path: Path) -> None:
    model, batch = model_of(family), batch_of(family)
    model.prune({0: [1]})
    if family in SEQ2SEQ_FAMILIES:
        model.prune({1: [0]}, "decoder")
        model.prune({0: [1]}, "cross")
    expected = model.run(**batch.to_clearhead())
    model.save(tmp_path)
    loaded = clearhead.load(tmp_path, "core")
    for part in ("encoder", "decoder", "cross"):
        kept_heads = [attention.kept_heads for attention in model.module.attentions(part)]
        assert [attention.kept_heads for attention in loaded.module.attentions(part)] == kept_heads
    np.testing.assert_array_equal(loaded.run(**batch.to_clearhead()).logits, expected.logits)
    # saved once more, nothing is lost or restored
    loaded.save(tmp_path / "again")
    third = clearhead.load(tmp_path / "again", "core")
    np.testing.assert_array_equal(third.run(**batch.to_clearhead()).logits, expected.logits)
    assert {n: p.shape for n, p in third.module.named_parameters()} == {
        n: p.shape for n, p in model.module.named_parameters()
    }


@pytest.mark.parametrize("family", TITLES)
def test_pruned_and_read_by_transformers(family: str, tmp_path: Path) -> None:
    """Pruned heads are saved as zeros, which other libraries load correctly."""
    model, batch = model_of(family), batch_of(family)
    full = model.run(**batch.to_clearhead()).logits
    model.prune({0: [1]})
    if family in SEQ2SEQ_FAMILIES:
        model.prune({1: [0]}, "decoder")
        model.prune({0: [1]}, "cross")
    logits = model.run(**batch.to_clearhead()).logits
    model.save(tmp_path)
    loaded_logits = compute_reference_outputs(load_in_transformers(tmp_path, TITLES[family]), batch)["logits"]
    mask = batch.mask if batch.target_mask is None else batch.target_mask
    assert logits is not None
    assert full is not None
    np.testing.assert_allclose(loaded_logits[mask], logits[mask], rtol=0, atol=1e-5)
    assert np.abs(logits - full)[mask].max() > 1e-3


def test_layers_that_share_a_block_lose_a_head_together() -> None:
    network, batch = network_of("albert"), batch_of("albert")
    assert network.shape.stack.block_of_layer == (0, 0, 1)
    network_two = network_of("albert")
    network_two.prune({0: {1}})
    only = torch.ones(3, 3)
    only[:2, 1] = 0
    assert_close(run(network, batch, head_scale={"encoder": only}), run(network_two, batch))
    # scaling tells the two layers apart
    only[0, 1] = 1
    with pytest.raises(AssertionError):
        assert_close(run(network, batch, head_scale={"encoder": only}), run(network_two, batch))


@pytest.mark.parametrize(
    ("heads", "part", "words"),
    [
        ({3: {0}}, "encoder", "'encoder' has no block 3; it has 3 blocks"),
        ({-1: {0}}, "encoder", "'encoder' has no block -1"),
        ({0: {3}}, "encoder", "Block 0 of the encoder has no head 3"),
        ({0: {-1}}, "encoder", "has no head -1"),
        ({0: {0, 1, 2}}, "encoder", "must keep at least one head"),
        ({0: {0}}, "decoder", "'decoder' has no block 0; it has 0 blocks"),
        ({0: {0}}, "cross", "'cross' has no block 0"),
    ],
)
def test_heads_that_cannot_be_pruned(heads: dict[int, set[int]], part: str, words: str) -> None:
    model = model_of("bert")
    with pytest.raises(InputError, match=words):
        model.prune(heads, part)


def test_nothing_is_pruned_when_one_head_is_wrong() -> None:
    model = model_of("bert")
    with pytest.raises(InputError, match="no head 9"):
        model.prune({0: {0}, 1: {9}})
    assert [attention.kept_heads for attention in model.module.attentions("encoder")] == [(0, 1, 2)] * 3
    model.prune({0: {0}})
    with pytest.raises(InputError, match=r"has no head 0 \(remaining: \(1, 2\)\)"):
        model.prune({0: {0}})


def test_scales_that_do_not_fit() -> None:
    model, batch = model_of("bert"), batch_of("bert")
    with pytest.raises(InputError, match=r"must have shape \(3, 3\), got \(2, 3\)"):
        model.run(**batch.to_clearhead(), head_scale=[[1, 1, 1], [1, 1, 1]])
    with pytest.raises(InputError, match="no part 'cross'"):
        model.run(**batch.to_clearhead(), head_scale={"cross": np.ones((3, 3))})
    out = model.run(**batch.to_clearhead(), head_scale=np.ones((3, 3)))
    np.testing.assert_array_equal(out.last, model.run(**batch.to_clearhead()).last)


def test_every_family_is_here() -> None:
    assert set(TITLES) == set(FAMILY_NAMES) - {"transformer"}
    assert set(HEAD) == set(FAMILY_NAMES)
