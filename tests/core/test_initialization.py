"""Initialization: distributions of each family's paper, reproducible seeds, and only missing tensors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.core.build import build_network
from clearhead.families import FAMILIES
from clearhead.shape import ModelShape
from tests.core.networks import FAMILY_NAMES, shape_of
from tests.family_configs import CLASSES, FIXED_CONFIGS
from tests.parity_models import import_transformers, save_reference

LARGER = {
    "hidden_size": 96,
    "intermediate_size": 160,
    "vocab_size": 300,
    "dim": 96,
    "hidden_dim": 160,
    "n_embd": 96,
    "d_model": 96,
    "d_kv": 32,
    "d_ff": 160,
    "encoder_ffn_dim": 160,
    "decoder_ffn_dim": 160,
    "embedding_size": 64,
    "width": 96,
    "feed_width": 160,
}
MORE: dict[str, dict[str, Any]] = {
    "deberta-v2": {"type_vocab_size": 2, "share_att_key": False, "position_biased_input": True}
}


def config(family: str) -> dict[str, Any]:
    """Return a config large enough to measure standard deviations."""
    return (
        FIXED_CONFIGS[family] | {k: v for k, v in LARGER.items() if k in FIXED_CONFIGS[family]} | MORE.get(family, {})
    )


def initial_weights(shape: ModelShape, seed: int = 0) -> dict[str, torch.Tensor]:
    return {name: parameter.detach() for name, parameter in build_network(shape, seed=seed).named_parameters()}


def std_of(weight: torch.Tensor) -> float:
    return float(weight.std(correction=0))


@pytest.mark.thin(4)
@pytest.mark.parametrize(("family", "title"), CLASSES, ids=[title for _, title in CLASSES])
def test_spread_as_in_transformers(family: str, title: str) -> None:
    """Every matrix has the standard deviation of transformers; biases are 0 and norms 1."""
    kind = getattr(import_transformers(), title)
    torch.manual_seed(0)
    with save_reference(kind(kind.config_class(**config(family)))) as folder:
        model = clearhead.load(folder, "core")
    ours = initial_weights(model.shape)
    for name, theirs in model.module.named_parameters():
        if theirs.ndim == 1:
            assert torch.equal(ours[name], theirs.detach()), name
            continue
        allowed = 0.06 + 2 / math.sqrt(theirs.numel())
        assert abs(math.log(std_of(ours[name]) / std_of(theirs.detach()))) < allowed, name


def large(family: str, head: str | None = None, **changes: Any) -> ModelShape:
    return FAMILIES[family].model_shape(config(family) | changes, head, 3)


def assert_std(weight: torch.Tensor, std: float) -> None:
    assert std_of(weight) == pytest.approx(std, rel=0.06 + 2 / math.sqrt(weight.numel()))
    assert abs(float(weight.mean())) < 4 * std / math.sqrt(weight.numel())


def test_bert() -> None:
    """Every matrix is normal with standard deviation 0.02."""
    for name, weight in initial_weights(large("bert", "pretrain")).items():
        if weight.ndim > 1:
            assert_std(weight, 0.02)
        else:
            assert (weight == (1.0 if name.endswith("norm.weight") else 0.0)).all()
    assert_std(initial_weights(large("bert", initializer_range=0.3))["stack.blocks.1.attend.inner.q.weight"], 0.3)


def test_gpt2() -> None:
    """GPT-2 scales output projections by 1/sqrt(2 layers); GPT-1 does not."""
    smaller = initial_weights(large("gpt2", "causal"))
    plain = initial_weights(large("openai-gpt", "causal"))
    for part in ("attend.inner.out.weight", "feed.inner.down.weight"):
        assert_std(smaller[f"stack.blocks.2.{part}"], 0.02 / math.sqrt(2 * 3))
        assert_std(plain[f"stack.blocks.2.{part}"], 0.02)
    assert_std(smaller["stack.blocks.2.feed.inner.up.weight"], 0.02)


def test_t5() -> None:
    """Scaled by fan-in, with 1/sqrt(d) folded into W_Q and standard normal embeddings."""
    weights = initial_weights(large("t5", "seq2seq"))
    assert_std(weights["stack.embed.token.weight"], 1.0)
    for side in ("stack", "decoder"):
        assert_std(weights[f"{side}.blocks.0.attend.inner.q.weight"], (96 * 32) ** -0.5)
        assert_std(weights[f"{side}.blocks.0.attend.inner.k.weight"], 96**-0.5)
        assert_std(weights[f"{side}.blocks.0.attend.inner.out.weight"], (3 * 32) ** -0.5)
        assert_std(weights[f"{side}.blocks.0.feed.inner.up.weight"], 96**-0.5)
        assert_std(weights[f"{side}.blocks.0.feed.inner.down.weight"], 160**-0.5)


def test_modernbert() -> None:
    """Truncated at two standard deviations."""
    weights = initial_weights(large("modernbert", "masked"))
    for name, std in (("feed.inner.up.weight", 0.02), ("attend.inner.out.weight", 0.02 / math.sqrt(6))):
        weight = weights[f"stack.blocks.1.{name}"]
        # what is cut off would have been the widest, so the spread is an eighth smaller
        assert float(weight.abs().max()) <= 2 * std + 1e-7
        assert std_of(weight) == pytest.approx(0.88 * std, rel=0.05)


def test_transformer_2017() -> None:
    """Xavier uniform, and embeddings that are later multiplied by sqrt(width)."""
    weights = initial_weights(large("transformer", "seq2seq"))
    assert_std(weights["stack.embed.token.weight"], 96**-0.5)
    weight = weights["decoder.blocks.1.feed.inner.up.weight"]
    edge = math.sqrt(6 / (96 + 160))
    assert_std(weight, edge / math.sqrt(3))
    assert edge * 0.98 < float(weight.abs().max()) <= edge


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_repeatable(family: str) -> None:
    first, again, different = (initial_weights(shape_of(family), seed) for seed in (7, 7, 8))
    for name, weight in first.items():
        assert torch.equal(weight, again[name])
        assert weight.isfinite().all()
        assert weight.ndim == 1 or not torch.equal(weight, different[name]), name


def test_a_seed_leaves_the_world_alone() -> None:
    """Building a model does not affect torch's global generator."""
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    build_network(shape_of("bert"), seed=5)
    assert torch.equal(torch.rand(4), expected)


def test_two_matrices_are_not_alike() -> None:
    weights = initial_weights(large("bert"))
    assert not torch.equal(
        weights["stack.blocks.0.attend.inner.q.weight"], weights["stack.blocks.0.attend.inner.k.weight"]
    )
    assert not torch.equal(
        weights["stack.blocks.0.attend.inner.q.weight"], weights["stack.blocks.1.attend.inner.q.weight"]
    )


@pytest.mark.parametrize("family", [family for family in FAMILY_NAMES if "classify" in FAMILIES[family].heads])
def test_a_fresh_head_on_given_weights(family: str, tmp_path: Path) -> None:
    """Only the head is initialized: all other weights come from the file, and the seed changes only the head."""
    kind = FAMILIES[family]
    model = clearhead.create(family, config={k: v for k, v in config(family).items() if k in kind.config_keys}, seed=1)
    model.save(tmp_path)
    stored = dict(model.module.named_parameters())
    first = clearhead.load(tmp_path, "core", head="classify", labels=("a", "b", "c"), seed=0)
    different = clearhead.load(tmp_path, "core", head="classify", labels=("a", "b", "c"), seed=1)
    assert first.shape.head is not None
    assert first.shape.head.outputs == 3
    for name, weight in first.module.named_parameters():
        second = different.module.get_parameter(name)
        if name in stored:
            assert torch.equal(weight, stored[name])
            assert torch.equal(weight, second)
        elif weight.ndim > 1:
            assert not torch.equal(weight, second)
            std = {"modernbert": 96**-0.5 if name.startswith("head.out") else 0.02 / math.sqrt(6)}.get(family, 0.02)
            assert std_of(weight.detach()) == pytest.approx(std, rel=0.25)
        elif name.endswith("bias"):
            assert (weight == 0).all()
