"""Round trips of sentence-transformers folders: pooling, dense layers, normalization, prompts, maximum length."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead import TruncationWarning
from clearhead.errors import CheckpointError
from clearhead.model.layers import pool
from clearhead.shape import POOLING_MODES
from tests.parity_models import import_transformers, make_reference

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "a",
    "river",
    "bank",
    "gets",
    "cash",
    "nice",
    "walk",
    "by",
    "and",
    "to",
    ":",
    "query",
    "passage",
    ",",
    ".",
    "il",
    "fait",
    "beau",
    "##s",
    "##ing",
]
TEXTS = (
    "a nice walk by the river bank",
    "walk to the bank and get cash",
    "The BANK, gets cashing",
    "walks",
    "",
    "il fait beau . " * 3,
)
MODES = tuple(mode for mode in POOLING_MODES if mode != "pooler")  # which sentence-transformers does not have
ACTIVATIONS = ("Tanh", "Identity", "ReLU", "GELU", "Sigmoid", "SiLU", "Mish", "ELU", "LeakyReLU", "ReLU6")


@pytest.fixture(scope="module")
def parts() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated names in the package warn on import
        from sentence_transformers import models

    return models


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with its vocabulary."""
    folder = tmp_path_factory.mktemp("encoder")
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
    make_reference("BertModel", sizes | {"vocab_size": len(WORDS), "max_position_embeddings": 40}).save_pretrained(
        folder
    )
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    import_transformers().BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    return folder


Make = Callable[..., Any]


@pytest.fixture
def make(parts: Any, encoder: Path) -> Make:
    def build(*steps: Any, max_length: int | None = None, lowercase: bool = False, **options: Any) -> Any:
        from sentence_transformers import SentenceTransformer

        torch.manual_seed(0)
        transformer = parts.Transformer(str(encoder), max_seq_length=max_length, do_lower_case=lowercase)
        return SentenceTransformer(modules=[transformer, *steps], device="cpu", **options).eval()

    return build


def check_round_trip(theirs: Any, folder: Path, texts: tuple[str, ...] = TEXTS, **options: Any) -> clearhead.Model:
    """Load their folder here and our folder there, and compare the vectors."""
    from sentence_transformers import SentenceTransformer

    expected = theirs.encode(list(texts), show_progress_bar=False, **options)
    theirs.save(str(folder / "theirs"))
    model = clearhead.load(folder / "theirs")
    assert np.abs(model.embed(texts, **options) - expected).max() < 1e-5
    model.save(folder / "ours")
    back = SentenceTransformer(str(folder / "ours"), device="cpu")
    assert np.abs(back.encode(list(texts), show_progress_bar=False, **options) - expected).max() < 1e-5
    reloaded = clearhead.load(folder / "ours")
    assert reloaded.pooling == model.pooling
    np.testing.assert_array_equal(reloaded.embed(texts, **options), model.embed(texts, **options))
    return model


@pytest.mark.parametrize("mode", MODES)
def test_every_pooling_mode(make: Make, parts: Any, tmp_path: Path, mode: str) -> None:
    model = check_round_trip(make(parts.Pooling(24, mode)), tmp_path)
    assert model.pooling.modes == (mode,)


@pytest.mark.parametrize("modes", [("mean", "max"), ("max", "mean"), ("lasttoken", "cls", "weightedmean"), MODES])
def test_concatenated_pooling_modes(make: Make, parts: Any, tmp_path: Path, modes: tuple[str, ...]) -> None:
    model = check_round_trip(make(parts.Pooling(24, modes)), tmp_path)
    assert model.embed(["a walk"]).shape == (1, 24 * len(modes))


def test_pooling_modes_differ(make: Make, parts: Any, tmp_path: Path) -> None:
    """The control: every pooling mode gives different vectors."""
    vectors = {}
    for mode in MODES:
        make(parts.Pooling(24, mode)).save(str(tmp_path / mode))
        vectors[mode] = clearhead.load(tmp_path / mode).embed(TEXTS)
    for first in MODES:
        for second in MODES:
            assert first == second or np.abs(vectors[first] - vectors[second]).max() > 1e-3


def test_normalize(make: Make, parts: Any, tmp_path: Path) -> None:
    model = check_round_trip(make(parts.Pooling(24), parts.Normalize()), tmp_path)
    assert np.abs(np.linalg.norm(model.embed(TEXTS), axis=1) - 1).max() < 1e-6
    assert np.abs(np.linalg.norm(model.embed(TEXTS, normalize=False), axis=1) - 1).min() > 1e-3


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_dense(make: Make, parts: Any, tmp_path: Path, name: str) -> None:
    step = parts.Dense(24, 7, bias=name != "ReLU", activation_function=getattr(torch.nn, name)())
    model = check_round_trip(make(parts.Pooling(24), step), tmp_path)
    assert model.embed(["a walk"]).shape == (1, 7)


def test_two_dense_layers_then_normalize(make: Make, parts: Any, tmp_path: Path) -> None:
    steps = parts.Dense(48, 10), parts.Dense(10, 5, activation_function=torch.nn.Identity()), parts.Normalize()
    model = check_round_trip(make(parts.Pooling(24, ("mean", "max")), *steps), tmp_path)
    assert [(dense.inputs, dense.outputs) for dense in model.pooling.dense] == [(48, 10), (10, 5)]


def test_control_one_wrong_dense_weight(make: Make, parts: Any, tmp_path: Path) -> None:
    theirs = make(parts.Pooling(24), parts.Dense(24, 7))
    theirs.save(str(tmp_path))
    model = clearhead.load(tmp_path)
    weight = model.dense[0]["weight"].copy()
    weight[0, 0] += 0.05
    model.dense = ({**model.dense[0], "weight": weight},)
    assert np.abs(model.embed(TEXTS) - theirs.encode(list(TEXTS), show_progress_bar=False)).max() > 1e-5


def test_prompts(make: Make, parts: Any, tmp_path: Path) -> None:
    prompts = {"query": "query : ", "passage": "passage : "}
    theirs = make(parts.Pooling(24), prompts=prompts, default_prompt_name="query")
    model = check_round_trip(theirs, tmp_path)
    plain = model.embed(TEXTS, prompt="")
    for name, prompt in prompts.items():
        prompted = model.embed(TEXTS, prompt_name=name)
        expected = theirs.encode(list(TEXTS), prompt_name=name, show_progress_bar=False)
        assert np.abs(prompted - expected).max() < 1e-5
        np.testing.assert_array_equal(prompted, model.embed(TEXTS, prompt=prompt))
        assert np.abs(prompted - plain).max() > 1e-3
    np.testing.assert_array_equal(model.embed(TEXTS), model.embed(TEXTS, prompt_name="query"))


@pytest.mark.parametrize("mode", MODES)
def test_prompt_excluded_from_pooling(make: Make, parts: Any, tmp_path: Path, mode: str) -> None:
    theirs = make(parts.Pooling(24, mode, include_prompt=False), prompts={"query": "query : "})
    model = check_round_trip(theirs, tmp_path, prompt_name="query")
    assert not model.pooling.include_prompt
    theirs = make(parts.Pooling(24, mode), prompts={"query": "query : "})
    included = theirs.encode(list(TEXTS), prompt_name="query", show_progress_bar=False)
    if mode != "lasttoken":
        assert np.abs(model.embed(TEXTS, prompt_name="query") - included).max() > 1e-3


@pytest.mark.parametrize("max_length", [3, 6])
def test_maximum_length(make: Make, parts: Any, tmp_path: Path, max_length: int) -> None:
    theirs = make(parts.Pooling(24), max_length=max_length)
    with pytest.warns(TruncationWarning, match=f"longer than {max_length} tokens"):
        model = check_round_trip(theirs, tmp_path)
    assert model.max_length(model.pooling) == max_length


def test_lower_case(make: Make, parts: Any, tmp_path: Path) -> None:
    model = check_round_trip(make(parts.Pooling(24), lowercase=True), tmp_path)
    np.testing.assert_array_equal(model.embed(["A WALK"]), model.embed(["a walk"]))


def test_pooler_is_not_written(encoder: Path, tmp_path: Path) -> None:
    """Only Clearhead supports pooler pooling, so saving such a model as a sentence-transformers folder is refused."""
    from dataclasses import replace

    model = clearhead.load(encoder)
    text = ["a nice walk"]
    ids = [model.tokenizer.encode(text[0]).ids]
    pooled = model.run(ids).pooled
    assert pooled is not None
    np.testing.assert_allclose(model.embed(text, pooling="pooler"), pooled, atol=1e-6)
    model.pooling = replace(model.pooling, modes=("pooler",), origin="me")
    with pytest.raises(CheckpointError, match="pooler"):
        model.save(tmp_path)


@pytest.mark.parametrize("mode", MODES)
def test_pooling_of_ragged_rows(parts: Any, mode: str) -> None:
    """The numpy pooling equals theirs on ragged rows, without a model."""
    rng = np.random.default_rng(0)
    tokens = rng.normal(size=(4, 6, 5)).astype(np.float32)
    mask = np.arange(6)[None] < np.array([6, 1, 3, 5])[:, None]
    theirs = parts.Pooling(5, mode)
    features = {"token_embeddings": torch.tensor(tokens), "attention_mask": torch.tensor(mask.astype(np.int64))}
    expected = theirs(features)["sentence_embedding"].numpy()
    np.testing.assert_allclose(pool(tokens, mask, None, (mode,)), expected, atol=1e-6)
