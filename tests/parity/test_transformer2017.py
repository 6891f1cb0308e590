"""The 2017 Transformer equals torch.nn.Transformer with the same tensors, loaded by name from the saved files."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

import clearhead
from clearhead import Model, tensors
from clearhead.families import FAMILIES
from tests.family_configs import choose, draw_bool
from tests.parity_models import TOLERANCE, TokenBatch, make_token_batch, perturb_weights
from tests.variation import scaled

# torch warns if it cannot use nested tensors, which do not matter here
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")


def sinusoid_table(length: int, width: int) -> torch.Tensor:
    """Compute PE(pos, 2i) = sin(pos / 10000^(2i/d)) and PE(pos, 2i+1) = cos(...) one number at a time."""
    table = torch.zeros(length, width)
    for position in range(length):
        for column in range(width):
            angle = position / 10000 ** (2 * (column // 2) / width)
            table[position, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


def create_model(config: dict[str, Any], seed: int = 0) -> Model:
    model = clearhead.create("transformer", config=config, head="seq2seq", seed=seed)
    perturb_weights(model.module, seed)
    return model


def compute_torch_logits(folder: Path, config: dict[str, Any], batch: TokenBatch) -> torch.Tensor:
    """Compute logits with torch.nn.Transformer, using every tensor of the folder."""
    stored = load_file(folder / "model.safetensors")
    inner = {name.removeprefix("transformer."): t for name, t in stored.items() if name.startswith("transformer.")}
    theirs = torch.nn.Transformer(
        config["width"],
        config["heads"],
        config["encoder_layers"],
        config["decoder_layers"],
        config["feed_width"],
        dropout=0.0,
        activation=config["activation"],
        layer_norm_eps=config["eps"],
        batch_first=True,
        norm_first=config["norm_first"],
    ).eval()
    theirs.load_state_dict(inner, strict=True)
    embedding = stored["embedding.weight"]
    target_embedding = stored.get("target_embedding.weight", embedding)
    source, target = torch.tensor(batch.ids), torch.tensor(batch.target_ids)
    scale = math.sqrt(config["width"])
    out = theirs(
        embedding[source] * scale + sinusoid_table(source.shape[1], config["width"]),
        target_embedding[target] * scale + sinusoid_table(target.shape[1], config["width"]),
        tgt_mask=torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1),
        src_key_padding_mask=~torch.tensor(batch.mask),
        memory_key_padding_mask=~torch.tensor(batch.mask),
        tgt_key_padding_mask=~torch.tensor(batch.target_mask),
    )
    logits: torch.Tensor = out @ stored.get("output.weight", target_embedding).T + stored.get("output.bias", 0.0)
    non_transformer = stored.keys() - {"embedding.weight", "target_embedding.weight", "output.weight", "output.bias"}
    assert len(non_transformer) == len(inner)
    return logits.detach()


@st.composite
def cases(draw: Any) -> tuple[dict[str, Any], TokenBatch, int]:
    heads, width = choose(draw, (3, 8), (2, 6), (5, 4), (1, 12))
    target = choose(draw, None, 60, 33)
    config = {
        "vocab_size": choose(draw, 60, 41),
        "target_vocab_size": target,
        "width": heads * width,
        "heads": heads,
        "feed_width": choose(draw, 20, 9),
        "encoder_layers": choose(draw, 2, 1, 3),
        "decoder_layers": choose(draw, 1, 2, 3),
        "activation": choose(draw, "relu", "gelu"),
        "norm_first": draw_bool(draw),
        "final_norm": True,
        "eps": choose(draw, 1e-5, 1e-3),
        "tie_word_embeddings": draw_bool(draw),
        "output_bias": draw_bool(draw),
    }
    seed = draw(st.integers(0, 1 << 20))
    sizes = st.lists(st.integers(1, 12), min_size=3, max_size=3)
    batch = make_token_batch(
        config["vocab_size"],
        tuple(draw(sizes)),
        targets=tuple(draw(sizes)),
        target_vocab=target or config["vocab_size"],
        seed=seed,
    )
    return config, batch, seed


def check_case(case: tuple[dict[str, Any], TokenBatch, int]) -> None:
    config, batch, seed = case
    model = create_model(config, seed)
    with TemporaryDirectory() as folder:
        model.save(folder)
        expected = compute_torch_logits(Path(folder), config, batch).numpy()
        reloaded = clearhead.load(folder, "core")
        for loaded in (model, reloaded):
            got = loaded.run(**batch.to_clearhead()).logits
            assert got is not None
            assert np.abs(got - expected)[batch.target_mask].max() <= TOLERANCE
        assert reloaded.shape == model.shape


@settings(max_examples=scaled(12), phases=(Phase.generate,))
@given(cases())
def test_equal_to_torch(case: tuple[dict[str, Any], TokenBatch, int]) -> None:
    check_case(case)


@pytest.mark.exhaustive
@settings(max_examples=300, phases=(Phase.generate,))
@given(cases())
def test_equal_to_torch_on_many(case: tuple[dict[str, Any], TokenBatch, int]) -> None:
    check_case(case)


CONFIG: dict[str, Any] = {
    "vocab_size": 60,
    "width": 24,
    "heads": 3,
    "feed_width": 20,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "activation": "relu",
    "norm_first": False,
    "final_norm": True,
    "eps": 1e-5,
}


@pytest.mark.parametrize(
    "name",
    [
        "stack.blocks.0.attend.inner.q.weight",
        "stack.blocks.1.feed.norm.weight",
        "decoder.blocks.0.cross.inner.v.weight",
        "decoder.blocks.1.attend.inner.k.weight",
        "decoder.norm.weight",
        "stack.embed.token.weight",
    ],
)
def test_control_one_wrong_weight(name: str, tmp_path: Path) -> None:
    batch = make_token_batch(60, (9, 5), targets=(7, 8))
    model = create_model(CONFIG)
    model.save(tmp_path)
    expected = compute_torch_logits(tmp_path, CONFIG, batch).numpy()
    with torch.no_grad():
        weight = model.module.get_parameter(name)
        weight[(int(batch.ids[0, 0]), 0) if "token" in name else (0,) * weight.ndim] += 0.05
    got = model.run(**batch.to_clearhead()).logits
    assert got is not None
    assert np.abs(got - expected)[batch.target_mask].max() > TOLERANCE


@pytest.mark.parametrize(("preset", "width", "heads", "feed"), [("base", 512, 8, 2048), ("big", 1024, 16, 4096)])
def test_sizes_of_the_paper(preset: str, width: int, heads: int, feed: int) -> None:
    family = FAMILIES["transformer"]
    model = family.model_shape(family.presets[preset], "seq2seq", 2)
    assert model.decoder is not None
    for side in (model.stack, model.decoder):
        assert (side.layers, side.width, side.heads, side.feed_forward_width) == (6, width, heads, feed)
        assert side.head_width == 64
        assert side.norm_position == "after"
        assert not side.final_norm
        assert side.embed_scale == math.sqrt(width)
    assert (model.decoder.causal, model.decoder.cross, model.stack.causal, model.stack.cross) == (
        True,
        True,
        False,
        False,
    )
    assert model.head is not None
    assert model.head.tied
    # table 3 of the paper: 65 and 213 million with a shared vocabulary of about 37,000
    published = {"base": 65e6, "big": 213e6}[preset]
    assert abs(tensors.count_values(tensors.expected_sizes(model)) / published - 1) < 0.04


def test_dropout_of_the_presets() -> None:
    family = FAMILIES["transformer"]
    rates = {name: family.model_shape(family.presets[name], None, 2).stack.dropouts for name in ("base", "big")}
    assert (rates["base"].embedding, rates["base"].attention_output, rates["base"].feed_forward_output) == (
        0.1,
        0.1,
        0.1,
    )
    assert (rates["big"].embedding, rates["big"].attention_output, rates["big"].feed_forward_output) == (0.3, 0.3, 0.3)
